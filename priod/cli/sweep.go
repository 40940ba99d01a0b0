package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"slurmprio/priod/report"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/sweep"
)

// Point simulates one point of a sweep: the flags of simulate, with the configuration at a path. It
// returns figures by their names in JSON.
type Point func(ctx context.Context, config string, args []string) (map[string]float64, error)

// Sweep is a grid of simulations that a file describes.
type Sweep struct {
	Simulate Point
	File     string
	Verb     []string // words of the verb that runs it, before the file
	Sbatch   []string // options of sbatch
	Tasks    int      // of a job array, at most
}

// study is a sweep with the place where its results are kept.
type study struct {
	Sweep
	*sweep.Study
	sweep.Runner
	points []sweep.Point
}

// RunSweep runs a grid as the flags --out, --workers, --part, --show, --sbatch and --json of a verb say.
func RunSweep(c *cli.Context, grid Sweep) error {
	s, err := openStudy(c, grid)
	if err != nil {
		return err
	}
	if c.Bool("sbatch") {
		return s.submit(c)
	}
	if len(s.Sbatch) > 0 {
		return usagef("%s: %q: options of sbatch go with --sbatch", c.Command.Name, s.Sbatch[0])
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	mine, err := part(s.points, c.String("part"))
	if err != nil {
		return err
	}
	var failed error
	if !c.Bool("show") {
		tick, finish := s.progress(c.App.ErrWriter, mine)
		s.Done = tick
		failed = s.Run(ctx, mine)
		finish()
	}
	if c.String("part") == "" {
		if err := s.show(c); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}

func openStudy(c *cli.Context, grid Sweep) (*study, error) {
	s := &study{Sweep: grid}
	var err error
	if s.Study, err = sweep.Load(s.File); err != nil {
		return nil, usageError{err}
	}
	for _, m := range s.Metrics {
		if known := figureNames(); !slices.Contains(known, m) {
			return nil, usagef("%s: metrics: no figure %.40q; there are %s", s.File, m, strings.Join(known, ", "))
		}
	}
	dir := strings.TrimSuffix(s.File, ".toml") + ".results"
	if c.IsSet("out") {
		dir = c.String("out")
	}
	workers := c.Int("workers")
	if !c.IsSet("workers") {
		workers = runtime.NumCPU()
	}
	if workers < 1 || s.Tasks < 1 {
		return nil, usagef("%s: --workers and --tasks are at least 1", c.Command.Name)
	}
	s.Runner = sweep.Runner{Dir: dir, Version: c.App.Version, Workers: workers, Simulate: func(ctx context.Context, args []string) (map[string]float64, error) {
		return grid.Simulate(ctx, c.String("config"), args)
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

// simulatePoint is the Point of priod simulate.
func simulatePoint(ctx context.Context, config string, args []string) (measured map[string]float64, err error) {
	app := Within("simulate")
	app.Flags = append(simulateFlags(), &cli.StringFlag{Name: "config"})
	app.Before = noArgs
	app.Action = func(c *cli.Context) error {
		s, err := simulation(ctx, c, io.Discard)
		if err != nil {
			return err
		}
		measured, err = FiguresByName(&s.Figures)
		return err
	}
	err = app.RunContext(ctx, slices.Concat([]string{app.Name, "--config=" + config}, args))
	return measured, err
}

// FiguresByName are the figures by their names in JSON; those of a group without jobs are left out.
func FiguresByName(f *metrics.Figures) (map[string]float64, error) {
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

// part picks every n-th point from k on.
func part(points []sweep.Point, text string) ([]sweep.Point, error) {
	if text == "" {
		return points, nil
	}
	first, of, _ := strings.Cut(text, "/")
	k, err1 := strconv.Atoi(first)
	n, err2 := strconv.Atoi(of)
	if err1 != nil || err2 != nil || k < 0 || k >= n {
		return nil, usagef("--part %.40q: want K/N with K from 0 to N-1", text)
	}
	var mine []sweep.Point
	for i := k; i < len(points); i += n {
		mine = append(mine, points[i])
	}
	return mine, nil
}

func (s *study) progress(w io.Writer, points []sweep.Point) (tick func(sweep.Point, error), finish func()) {
	return pointsDone(w, &s.Runner, points)
}

// pointsDone shows on a terminal how many points are done.
func pointsDone(w io.Writer, r *sweep.Runner, points []sweep.Point) (tick func(sweep.Point, error), finish func()) {
	if !isTerminal(w) {
		return nil, func() {}
	}
	missing, err := r.Missing(points)
	if err != nil || len(missing) == 0 {
		return nil, func() {}
	}
	p := mpb.New(mpb.WithOutput(w))
	bar := p.AddBar(int64(len(missing)), mpb.PrependDecorators(decor.CountersNoUnit("%d of %d points")), mpb.AppendDecorators(decor.AverageETA(decor.ET_STYLE_GO)))
	return func(sweep.Point, error) { bar.Increment() }, func() {
		bar.Abort(false)
		p.Wait()
	}
}

// submit sends the points that are missing through Slurm.
func (s *study) submit(c *cli.Context) error {
	missing, err := s.Missing(s.points)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		fmt.Fprintln(c.App.Writer, "Every point has its result: --show shows them.")
		return nil
	}
	file, err1 := filepath.Abs(s.File)
	dir, err2 := filepath.Abs(s.Dir)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	tasks := min(s.Tasks, len(s.points))
	verb := append(slices.Clone(s.Verb), file, "--out", dir, "--workers", "1")
	if err := submitArray(c, "priod-sweep", dir, tasks, verb, s.Sbatch); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%d points in %d tasks; %s %s %s --show shows what is there.\n", len(missing), tasks, c.App.Name, strings.Join(s.Verb, " "), s.File)
	return nil
}

// submitArray has Slurm run a verb of priod as a job array, each task with --part K/N; more are options of sbatch.
func submitArray(c *cli.Context, name, dir string, tasks int, verb, more []string) error {
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err := errors.Join(err, os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	words := []string{self}
	if path := c.String("config"); path != "" {
		full, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		words = append(words, "--config", full)
	}
	words = append(words, verb...)
	for i, w := range words {
		words[i] = quote(w)
	}
	script := "exec " + strings.Join(words, " ") + fmt.Sprintf(" --part \"$SLURM_ARRAY_TASK_ID/%d\"", tasks)
	args := append([]string{"--job-name=" + name, fmt.Sprintf("--array=0-%d", tasks-1), "--output=" + filepath.Join(dir, "slurm-%A_%a.out")}, more...)
	sbatch := exec.CommandContext(c.Context, "sbatch", append(args, "--wrap="+script)...)
	if cfg.Slurm.BinDir != "" {
		sbatch.Path = filepath.Join(cfg.Slurm.BinDir, "sbatch")
		sbatch.Err = nil
	}
	sbatch.Stdout, sbatch.Stderr = c.App.Writer, c.App.ErrWriter
	if err := sbatch.Run(); err != nil {
		return fmt.Errorf("sbatch: %w", err)
	}
	return nil
}

// quote makes one word for a shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

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
	p := report.Page{Title: cmp.Or(s.Title, filepath.Base(s.File)), Words: []string{strings.Join(slices.Concat([]string{c.App.Name}, s.Verb, []string{s.File}), " ")}, Tables: []report.PageTable{{Title: "Means over seeds", Header: header, Rows: cells}}, Plots: plots}
	if err := writeFile(page, p.Write); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "\nPlots: %s\n", page)
	return nil
}

func (s *study) table(rows []sweep.Row) (header []string, cells [][]any) {
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

func (s *study) asJSON(rows []sweep.Row) any {
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
func (s *study) plots(rows []sweep.Row) []report.Figure {
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
