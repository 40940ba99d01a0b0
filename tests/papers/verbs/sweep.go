package verbs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/report"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/sweep"
	"slurmprio/tests/papers/grid"
)

func sweepCommand() *cli.Command {
	return &cli.Command{
		Name: "sweep", Usage: "simulate a grid of policies, loads and seeds", ArgsUsage: "FILE",
		Description: "FILE is TOML: title, metrics, [base] and [grid], whose keys are simulate's flags. Every point is kept in a file of its\n" +
			"own, so an interrupted sweep can be resumed. The seed axis is averaged over.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep results and the page in `FOLDER` (default: FILE without .toml, .results)"},
			&cli.IntFlag{Name: "workers", Value: runtime.NumCPU(), DefaultText: "all cores", Usage: "simulate `POINTS` in parallel"},
			&cli.BoolFlag{Name: "show", Usage: "simulate nothing, show existing results"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
		},
		Action: runSweep,
	}
}

// study is a grid with the place where its results are kept.
type study struct {
	*grid.Study
	sweep.Runner
	file   string
	points []sweep.Point
}

func runSweep(c *cli.Context) error {
	s, err := openStudy(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var failed error
	if !c.Bool("show") {
		failed = s.Run(ctx, s.points)
	}
	return errors.Join(failed, s.show(c))
}

func openStudy(c *cli.Context) (*study, error) {
	if c.NArg() != 1 {
		return nil, usagef("sweep: name the study's FILE")
	}
	s := &study{file: c.Args().First()}
	var err error
	if s.Study, err = grid.Load(s.file); err != nil {
		return nil, usagef("%v", err)
	}
	for _, m := range s.Metrics {
		if known := figureNames(); !slices.Contains(known, m) {
			return nil, usagef("%s: metrics: no figure %.40q; there are %s", s.file, m, strings.Join(known, ", "))
		}
	}
	dir := cmp.Or(c.String("out"), strings.TrimSuffix(s.file, ".toml")+".results")
	s.Runner = sweep.Runner{Dir: dir, Version: c.App.Version, Workers: c.Int("workers"), Simulate: func(ctx context.Context, args []string) (map[string]float64, error) {
		return simulatePoint(ctx, c.String("config"), args)
	}}
	s.points = s.Points()
	return s, nil
}

// figureNames are the figures of a simulation, as --json names them.
func figureNames() (names []string) {
	for _, of := range []reflect.Type{reflect.TypeFor[metrics.Figures](), reflect.TypeFor[metrics.CPUOnly]()} {
		for f := range of.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// figuresByName are the figures by their names in JSON; those of a group without jobs are left out.
func figuresByName(f *metrics.Figures) (map[string]float64, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	var figures map[string]*float64 // null: a group without jobs
	if err := json.Unmarshal(text, &figures); err != nil {
		return nil, err
	}
	measured := map[string]float64{}
	for name, v := range figures {
		if v != nil {
			measured[name] = *v
		}
	}
	return measured, nil
}

// show prints the table and writes the page.
func (s *study) show(c *cli.Context) error {
	rows, err := s.Rows(&s.Runner, s.points)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return report.JSON(c.App.Writer, s.asJSON(rows))
	}
	header, cells := s.table(rows)
	report.Table(c.App.Writer, header, cells)
	page := filepath.Join(s.Dir, "sweep.html")
	plots := s.plots(rows)
	if len(plots) == 0 {
		return nil
	}
	p := report.Page{Title: cmp.Or(s.Title, filepath.Base(s.file)), Words: []string{strings.Join([]string{c.App.Name, "sweep", s.file}, " ")}, Tables: []report.PageTable{{Title: "Means over seeds", Header: header, Rows: cells}}, Plots: plots}
	f, err := os.Create(page)
	if err != nil {
		return err
	}
	if err := errors.Join(p.Write(f), f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "\nPlots: %s\n", page)
	return nil
}

func (s *study) table(rows []grid.Row) (header []string, cells [][]any) {
	for _, a := range s.Questions() {
		header = append(header, strings.ToUpper(a.Flag))
	}
	header = append(append(header, "RUNS"), s.Metrics...)
	for _, r := range rows {
		var row []any
		for _, v := range r.At {
			row = append(row, v)
		}
		row = append(row, fmt.Sprintf("%d/%d", r.Runs, r.Of))
		for _, m := range s.Metrics {
			if v, ok := r.Mean[m]; ok {
				row = append(row, strconv.FormatFloat(v, 'f', 2, 64))
			} else {
				row = append(row, "")
			}
		}
		cells = append(cells, row)
	}
	return header, cells
}

func (s *study) asJSON(rows []grid.Row) any {
	type row struct {
		At      map[string]string  `json:"at"`
		Runs    int                `json:"runs"`
		Of      int                `json:"of"`
		Metrics map[string]float64 `json:"metrics"`
	}
	out := make([]row, len(rows))
	for i, r := range rows {
		out[i] = row{At: map[string]string{}, Runs: r.Runs, Of: r.Of, Metrics: r.Mean}
		for k, a := range s.Questions() {
			out[i].At[a.Flag] = r.At[k]
		}
	}
	return map[string]any{"title": s.Title, "points": len(s.points), "rows": out}
}

// plots has one figure for each metric: along the first axis of numbers, a
// curve for each combination of the others; without such an axis, bars.
func (s *study) plots(rows []grid.Row) []report.Figure {
	along := s.Scale()
	var plots []report.Figure
	for _, m := range s.Metrics {
		f := report.Figure{Title: m, YLabel: m, Points: true}
		for _, r := range rows {
			v, ok := r.Mean[m]
			if !ok {
				continue
			}
			if along < 0 {
				f.Bars = append(f.Bars, report.Bar{Name: strings.Join(r.At, " "), Value: v})
				continue
			}
			f.XLabel = s.Questions()[along].Flag
			name := strings.Join(slices.Delete(slices.Clone(r.At), along, along+1), " ")
			x, _ := strconv.ParseFloat(r.At[along], 64) // Scale parsed it
			i := slices.IndexFunc(f.Curves, func(c report.Curve) bool { return c.Name == name })
			if i < 0 {
				i = len(f.Curves)
				f.Curves = append(f.Curves, report.Curve{Name: name})
			}
			f.Curves[i].X, f.Curves[i].Y = append(f.Curves[i].X, x), append(f.Curves[i].Y, v)
		}
		if len(f.Bars)+len(f.Curves) > 0 {
			plots = append(plots, f)
		}
	}
	return plots
}
