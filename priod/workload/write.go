package workload

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// WriteTOML writes workloads as Parse reads them, under a comment that says
// where they come from. The same workloads give the same bytes.
func WriteTOML(w io.Writer, comment string, all []Workload) error {
	var b []byte
	for line := range strings.Lines(comment) {
		b = append(append(b, "# "...), strings.TrimRight(line, "\n")...)
		b = append(b, '\n')
	}
	for i := range all {
		b = append(b, '\n')
		b = all[i].appendTOML(b)
	}
	_, err := w.Write(b)
	return err
}

func (w *Workload) appendTOML(b []byte) []byte {
	b = append(b, "[[workload]]\nname = "...)
	b = quoted(b, w.Name)
	if len(w.Aliases) > 0 {
		b = appendList(append(b, "\naliases = "...), w.Aliases, quoted)
	}
	for _, kv := range [][2]string{{"class", w.Class}, {"source", w.Source}} {
		if kv[1] != "" {
			b = quoted(append(append(append(b, '\n'), kv[0]...), " = "...), kv[1])
		}
	}
	b = append(b, '\n')
	for _, gpuType := range gpuTypes(w.Speeds) {
		b = append(append(append(b, "speed."...), key(gpuType)...), " = {"...)
		for i, s := range w.Speeds[gpuType] {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(strconv.AppendInt(append(b, ' '), int64(s.GPUs), 10), " = "...)
			b = float(b, s.StepsPerS)
		}
		b = append(b, " }\n"...)
	}
	for _, gpuType := range gpuTypes(w.Curves) {
		c := w.Curves[gpuType]
		b = append(append(append(b, "[workload.curve."...), key(gpuType)...), "]\niteration_s = "...)
		b = float(b, c.IterationS)
		b = float(append(b, "\ndemand_cpus = "...), c.DemandCPUs)
		b = strconv.AppendInt(append(b, "\ndemand_mem_mb = "...), c.DemandMemMB, 10)
		b = appendList(append(b, "\ncpus = "...), c.CPUs, float)
		b = appendList(append(b, "\nmem_mb = "...), c.MemMB, func(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) })
		b = append(b, "\nspeed = [\n"...)
		for _, row := range c.Speed {
			b = append(appendList(append(b, "  "...), row, float), ",\n"...)
		}
		b = append(b, "]\n"...)
	}
	return b
}

// gpuTypes are the types of a map, Gavel's in the order of its tables.
func gpuTypes[V any](m map[string]V) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if x, y := slices.Index(gavelTypes, a), slices.Index(gavelTypes, b); x >= 0 && y >= 0 {
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

func quoted(b []byte, s string) []byte { return strconv.AppendQuote(b, s) }

// float writes a number as TOML has it; shortest that reads back the same.
func float(b []byte, f float64) []byte {
	if f != 0 && (f < 1e-6 || f >= 1e15) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'f', -1, 64)
	return b
}

func appendList[T any](b []byte, list []T, item func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, x := range list {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = item(b, x)
	}
	return append(b, ']')
}
