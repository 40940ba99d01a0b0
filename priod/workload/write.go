package workload

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// WriteTOML writes workloads as Parse reads them, under a comment that says
// where they come from. The same workloads give the same bytes.
func WriteTOML(w io.Writer, comment string, all []Workload) error {
	var b strings.Builder
	for line := range strings.Lines(comment) {
		fmt.Fprintf(&b, "# %s\n", strings.TrimRight(line, "\n"))
	}
	for i := range all {
		all[i].writeTOML(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (w *Workload) writeTOML(b *strings.Builder) {
	fmt.Fprintf(b, "\n[[workload]]\nname = %q\n", w.Name)
	if len(w.Aliases) > 0 {
		fmt.Fprintf(b, "aliases = [%s]\n", joined(w.Aliases, strconv.Quote))
	}
	for _, kv := range [][2]string{{"class", w.Class}, {"source", w.Source}} {
		if kv[1] != "" {
			fmt.Fprintf(b, "%s = %q\n", kv[0], kv[1])
		}
	}
	speed := func(s Speed) string { return fmt.Sprintf("%d = %s", s.GPUs, float(s.StepsPerS)) }
	for _, gpuType := range gpuTypes(w.Speeds) {
		fmt.Fprintf(b, "speed.%s = { %s }\n", key(gpuType), joined(w.Speeds[gpuType], speed))
	}
	for _, gpuType := range gpuTypes(w.Curves) {
		c := w.Curves[gpuType]
		fmt.Fprintf(b, "[workload.curve.%s]\niteration_s = %s\ndemand_cpus = %s\ndemand_mem_mb = %d\n", key(gpuType), float(c.IterationS), float(c.DemandCPUs), c.DemandMemMB)
		fmt.Fprintf(b, "cpus = [%s]\nmem_mb = [%s]\nspeed = [\n", joined(c.CPUs, float), joined(c.MemMB, func(mb int64) string { return strconv.FormatInt(mb, 10) }))
		for _, row := range c.Speed {
			fmt.Fprintf(b, "  [%s],\n", joined(row, float))
		}
		b.WriteString("]\n")
	}
}

// GavelTypes are Gavel's GPU types; "TYPE_unconsolidated" is measured in its
// files and used by nothing.
var GavelTypes = []string{"v100", "p100", "k80"}

// gpuTypes are the types of a map, Gavel's in the order of its tables.
func gpuTypes[V any](m map[string]V) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if x, y := slices.Index(GavelTypes, a), slices.Index(GavelTypes, b); x >= 0 && y >= 0 {
			return x - y
		}
		return strings.Compare(a, b)
	})
}

// key writes a GPU type as a TOML key: "3g.20gb" needs quotes.
func key(s string) string {
	if strings.Contains(s, ".") {
		return strconv.Quote(s)
	}
	return s
}

// float writes a number as TOML has it; shortest that reads back the same.
func float(f float64) string {
	if f != 0 && (f < 1e-6 || f >= 1e15) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func joined[T any](list []T, text func(T) string) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = text(x)
	}
	return strings.Join(texts, ", ")
}
