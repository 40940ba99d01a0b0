package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"slurmprio/etc"
	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/workload"
)

func workloadsCommand() *cli.Command {
	return &cli.Command{
		Name: "workloads", Usage: "show the programs whose speed is known on each GPU type",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "show known workloads, their aliases and speeds",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "workloads", Usage: "read workloads from `FILE` (default: speeds.workloads of the configuration)"},
					jsonFlag(),
				},
				Before: noArgs, Action: listWorkloads,
			},
			workloadsHistoryCommand(), workloadsUsageCommand(),
			{
				Name: "export", Usage: "print the workloads file in use: speeds.workloads of the configuration, else the built-in one",
				Flags: []cli.Flag{outFlag()}, Before: noArgs, Action: configured(exportWorkloads),
			},
		},
		Before: func(c *cli.Context) error { return goneAs("workloads " + c.Args().First()) },
		Action: which("workloads: say what to do: workloads list, history, usage or export"),
	}
}

func outFlag() cli.Flag {
	return &cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write to `FILE` (default: standard output)"}
}

// writeOut writes to --out.
func writeOut(c *cli.Context, write func(io.Writer) error) error {
	if path := c.String("out"); path != "" && path != "-" {
		return writeFile(path, write)
	}
	return write(c.App.Writer)
}

// writeTo writes to the file that a flag names; nothing where it names none.
func writeTo(c *cli.Context, flag string, write func(io.Writer) error) error {
	if path := c.String(flag); path != "" {
		return writeFile(path, write)
	}
	return nil
}

// writeFile writes a whole file or none: a write that fails leaves what stood
// there before.
func writeFile(path string, write func(io.Writer) error) error {
	if i, err := os.Stat(path); err == nil && !i.Mode().IsRegular() { // a pipe, /dev/stdout
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return write(f)
	}
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		if e := new(fs.PathError); errors.As(err, &e) {
			e.Path = path // what was asked for
		}
		return err
	}
	err = write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}

type workloadView struct {
	Name    string                        `json:"name"`
	Aliases []string                      `json:"aliases"`
	Class   string                        `json:"class"`
	Source  string                        `json:"source"`
	Speeds  map[string]map[string]float64 `json:"steps_per_s"` // by GPU type, by number of GPUs
	Curves  map[string]workload.Curve     `json:"curves"`
}

// exportWorkloads prints the file as it stands, comments and all.
func exportWorkloads(c *cli.Context, cfg *config.Config) error {
	text := etc.Workloads
	if path := cfg.Speeds.Workloads; path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("speeds.workloads: %w", err)
		}
		text = string(b)
	}
	return writeOut(c, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

func listWorkloads(c *cli.Context) error {
	path := c.String("workloads")
	if path == "" {
		cfg, err := loadConfig(c)
		if err != nil {
			return err
		}
		path = cfg.Speeds.Workloads
	}
	t, err := workload.Load(path)
	if err != nil {
		return usageError{err}
	}
	views := make([]workloadView, len(t.All()))
	rows := make([][]any, len(views))
	for i, w := range t.All() {
		v := workloadView{Name: w.Name, Aliases: append([]string{}, w.Aliases...), Class: w.Class, Source: w.Source,
			Speeds: map[string]map[string]float64{}, Curves: w.Curves}
		if v.Curves == nil {
			v.Curves = map[string]workload.Curve{}
		}
		var cells []string
		for _, gpuType := range slices.Sorted(maps.Keys(w.Speeds)) {
			v.Speeds[gpuType] = map[string]float64{}
			var list []string
			for _, s := range w.Speeds[gpuType] {
				v.Speeds[gpuType][strconv.Itoa(s.GPUs)] = s.StepsPerS
				list = append(list, fmt.Sprintf("%dx%.4g", s.GPUs, s.StepsPerS))
			}
			cells = append(cells, gpuType+":"+strings.Join(list, "-"))
		}
		for _, gpuType := range slices.Sorted(maps.Keys(w.Curves)) {
			k := w.Curves[gpuType]
			cells = append(cells, fmt.Sprintf("%s:%.4g, x%.4g with %.4g CPUs and %d MB a GPU", gpuType, 1/k.IterationS, k.Best(), k.DemandCPUs, k.DemandMemMB))
		}
		views[i] = v
		rows[i] = []any{w.Name, strings.Join(w.Aliases, ", "), w.Class, w.Source, strings.Join(cells, " ")}
	}
	return answer(c, map[string]any{"workloads": views}, func(w io.Writer) {
		report.Table(w, []string{"WORKLOAD", "ALIASES", "CLASS", "SOURCE", "STEPS/S (GPUSxSPEED)"}, rows)
	})
}
