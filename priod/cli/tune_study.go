package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/simulate/sweep"
	"slurmprio/priod/simulate/tune"
)

// changes are tried one by one over the best profile: a feature off or on, an order, a price.
var changes = []string{
	"steering.enabled=false", "sizing.enabled=false", "locality.enabled=false", "preemption.enabled=false", "preemption.headroom=false", "preemption.headroom=true",
	"rounds.enabled=true", "ranking.order=slurm", "ranking.order=owed", "preemption.urgency=2", "preemption.urgency=10", "preemption.max_per_hour=20",
}

// tuned is what a study found.
type tuned struct {
	now, slurm *tune.Setting
	choice     tune.Choice
	lines      []tunedLine
	report     []int // blocks
}

// tunedLine is one line of the recommended change, and what the goal loses without it.
type tunedLine struct {
	tune.Edit
	Worth *tune.Change `json:"worth"` // from without the line to with it; null: the only one
}

// study replays settings in three stages: profiles, changes of the best one, and the changes that win together; then the change
// without each of its lines.
func (t *tuning) study(ctx context.Context) (*tuned, error) {
	choose, rest := tune.Split(t.blocks)
	first := [][]string{nil, {slurmAlone}}
	for _, p := range config.Profiles {
		first = append(first, []string{"profile=" + p.Name})
	}
	for _, try := range t.tries {
		first = append(first, strings.Fields(try))
	}
	if err := t.stage(ctx, first); err != nil {
		return nil, err
	}
	d := &tuned{now: t.settings[0], slurm: t.settings[1], report: rest}
	t.aim.Now = d.now.Blocks
	base := t.aim.Best(t.candidates(), choose)
	if base == nil {
		base = d.now
	}
	var second [][]string
	for _, change := range changes {
		second = append(second, with(base.Set, change))
	}
	for _, try := range t.tries {
		together := base.Set
		for _, assignment := range strings.Fields(try) {
			together = with(together, assignment)
		}
		second = append(second, together)
	}
	if err := t.stage(ctx, second); err != nil {
		return nil, err
	}
	var winners []*tune.Setting
	for _, s := range t.aim.Winners(t.candidates(), base, choose) {
		if len(s.Set) == len(base.Set)+1 && slices.Equal(s.Set[:len(base.Set)], base.Set) {
			winners = append(winners, s)
		}
	}
	var third [][]string
	together := base.Set
	for i, s := range winners {
		if together = with(together, s.Set[len(s.Set)-1]); i > 0 {
			third = append(third, together)
		}
	}
	before := len(t.settings)
	if err := t.stage(ctx, third); err != nil {
		return nil, err
	}
	// A change of the base that does not win against it by more than its doubt is none, whatever its mean.
	sure := []*tune.Setting{d.now, base}
	for _, s := range append(winners, t.settings[before:]...) {
		if !slices.Contains(sure, s) {
			sure = append(sure, s)
		}
	}
	d.choice = t.aim.Choose(sure, d.now, choose, rest)
	if s := d.choice.Setting; s != nil {
		var err error
		if d.lines, err = t.lines(ctx, s, rest); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// lines are those of the recommended change, with what each is worth in some blocks.
func (t *tuning) lines(ctx context.Context, s *tune.Setting, which []int) ([]tunedLine, error) {
	var less [][]string
	for i := range s.Set {
		less = append(less, slices.Delete(slices.Clone(s.Set), i, i+1))
	}
	if len(less) > 1 {
		if err := t.stage(ctx, less); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(t.cfg)
	if err != nil && t.cfg != "" && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	edits := tune.Edits(string(text), s.Set)
	lines := make([]tunedLine, len(edits))
	for i, e := range edits {
		lines[i].Edit = e
		if len(less) < 2 {
			continue
		}
		if without := t.of(less[i]); without != nil && without.Blocks != nil {
			w := tune.Between(without.Blocks, s.Blocks, t.aim.Goal, which)
			lines[i].Worth = &w
		}
	}
	return lines, nil
}

// with is a list of assignments with another one, instead of one of the same key.
func with(set []string, assignment string) []string {
	key, _, _ := strings.Cut(assignment, "=")
	kept := slices.DeleteFunc(slices.Clone(set), func(s string) bool { return strings.HasPrefix(s, key+"=") })
	return append(kept, assignment)
}

// candidates are the settings that could be recommended.
func (t *tuning) candidates() []*tune.Setting {
	return slices.DeleteFunc(slices.Clone(t.settings), func(s *tune.Setting) bool { return slices.Equal(s.Set, []string{slurmAlone}) })
}

// of is the setting with these assignments, or one under which the same holds; nil: it was not tried.
func (t *tuning) of(set []string) *tune.Setting {
	key, err := t.holds(set)
	if err != nil {
		return nil
	}
	return t.known[key]
}

// holds is the configuration under which a setting runs.
func (t *tuning) holds(set []string) (string, error) {
	if slices.Equal(set, []string{slurmAlone}) {
		return slurmAlone, nil
	}
	cfg, err := t.config(set)
	if err != nil {
		return "", err
	}
	cfg.Profile = "" // what it switches on stands in the keys
	return cfg.TOML()
}

// add takes up the settings under which nothing holds that was tried before. Of the first ones, which are the user's, each has
// to be a configuration; of what is tried over them (a change, several together) those that are none are left out, as rounds
// are where the file has no steering.
func (t *tuning) add(sets [][]string) (added []*tune.Setting, points []sweep.Point, err error) {
	first := len(t.settings) == 0
	for _, set := range sets {
		key, err := t.holds(set)
		switch {
		case err != nil && first:
			return nil, nil, usageError{err}
		case err != nil || t.known[key] != nil:
			continue
		}
		s := &tune.Setting{Set: set}
		t.known[key] = s
		t.settings, added, points = append(t.settings, s), append(added, s), append(points, sweep.PointOf(set))
	}
	return added, points, nil
}

// stage replays the settings under which nothing holds that was replayed before.
func (t *tuning) stage(ctx context.Context, sets [][]string) error {
	added, points, err := t.add(sets)
	if err != nil {
		return err
	}
	missing, err := t.Missing(points)
	if err != nil {
		return err
	}
	began := time.Now()
	seen, finish := progress(t.errs, []string{""}, int64(len(missing)), func(_ string, n int64) string {
		left := time.Since(began) * time.Duration(int64(len(missing))-n) / time.Duration(max(n, 1))
		return fmt.Sprintf("%d of %d settings, %s left", n, len(missing), report.Ago(left))
	})
	done := int64(0)
	t.Done = func(sweep.Point, error) {
		done++
		seen("", done)
	}
	failed := t.Run(ctx, missing)
	finish()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, p := range points {
		flat, known, err := t.Result(p)
		if err != nil {
			return err
		}
		if known {
			added[i].Blocks = tune.Unflat(flat)
		}
	}
	if failed != nil {
		fmt.Fprintf(t.errs, "priod: note: settings that could not be replayed: %s\n", report.Safe(failed.Error()))
	}
	return nil
}

// goals in words.
var goalWords = map[tune.Goal]string{
	tune.Completion: "mean completion, h", tune.TEP95: "TE slowdown p95", tune.WorstUser: "worst user's slowdown", tune.Lost: "GPU-hours lost in a block",
}

var goalHeads = map[tune.Goal]string{tune.Completion: "COMPLETION, H", tune.TEP95: "TE P95", tune.WorstUser: "WORST USER", tune.Lost: "GPU-H LOST"}

// tuneLegend explains the table.
const tuneLegend = "COMPLETION: mean, from submission to end. TE P95: slowdown of trials. WORST USER: mean slowdown of a user's jobs. GPU-H LOST: in a\n" +
	"block, by evictions, failures and restarts. FRONT: no other setting is better in one figure and worse in none."

// show prints the settings and the recommended change, and writes the page.
func (t *tuning) show(c *cli.Context, d *tuned) error {
	front := tune.Front(t.candidates())
	if c.Bool("json") {
		return report.JSON(c.App.Writer, t.asJSON(d, front))
	}
	for _, n := range t.Notes {
		fmt.Fprintln(t.errs, "priod: note:", report.Safe(n))
	}
	header, rows := t.table(d, front)
	report.Table(t.out, header, rows)
	fmt.Fprintf(t.out, `
%d jobs in %d blocks of %s: every second block chose, the others say what a change is worth (90 %% confidence).
%s
%s
`, len(t.jobs), t.blocks, report.Seconds(t.length), tuneLegend, t.untagged())
	said, diff := t.words(d)
	fmt.Fprintln(t.out, said)
	if diff != "" {
		fmt.Fprintf(t.out, "\n%s", diff)
	}
	page := filepath.Join(t.Dir, "tune.html")
	p := report.Page{
		Title: "priod tune", Diff: diff,
		Words:  []string{fmt.Sprintf("%d jobs, %d settings, goal: %s.", len(t.jobs), len(t.settings), goalWords[t.aim.Goal]), said, strings.ReplaceAll(tuneLegend, "\n", " ")},
		Tables: []report.PageTable{{Title: "Settings", Header: header, Rows: rows}}, Plots: t.plots(front),
	}
	if err := writeFile(page, p.Write); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "\nPage: %s\n", page)
	return nil
}

// untagged warns where priod may do little with jobs.
func (t *tuning) untagged() string {
	jobs, bare := 0, 0
	for i := range t.jobs {
		if t.jobs[i].GPUs > 0 {
			jobs++
			if t.jobs[i].NoTag {
				bare++
			}
		}
	}
	cfg, err := t.config(nil)
	if err != nil || 5*bare < jobs {
		return ""
	}
	rules := "and priod.toml has no [[consent]] rule: priod only orders them (docs/features/consent.md)"
	if len(cfg.Consents) > 0 {
		rules = "the [[consent]] rules of priod.toml say what priod may do with them"
	}
	return fmt.Sprintf("%.0f %% of the GPU jobs have no tag, %s.\n", 100*float64(bare)/float64(jobs), rules)
}

// figure is one of a table; "-": no block has it.
func figure(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// table has a row for each setting, the best by the goal first.
func (t *tuning) table(d *tuned, front []*tune.Setting) (header []string, rows [][]any) {
	header = []string{"SETTING"}
	for _, g := range tune.Goals {
		header = append(header, goalHeads[g])
	}
	header = append(header, strings.ToUpper(string(t.aim.Goal))+" AGAINST NOW", "FRONT")
	all := slices.Clone(t.settings)
	slices.SortStableFunc(all, func(a, b *tune.Setting) int {
		x, y := a.All(t.aim.Goal), b.All(t.aim.Goal)
		switch {
		case a.Blocks == nil || x > y:
			return 1
		case b.Blocks == nil || x < y:
			return -1
		}
		return 0
	})
	for _, s := range all {
		row := []any{s.Name()}
		if s.Blocks == nil {
			rows = append(rows, append(row, "cannot be replayed"))
			continue
		}
		for _, g := range tune.Goals {
			row = append(row, figure(s.All(g)))
		}
		against, mark := "", ""
		if s != d.now && d.now.Blocks != nil {
			against = changeWords(tune.Between(d.now.Blocks, s.Blocks, t.aim.Goal, d.report))
		}
		if slices.Contains(front, s) {
			mark = "yes"
		}
		rows = append(rows, append(row, against, mark))
	}
	return header, rows
}

// changeWords are a change with its doubt, in parts of what it was where that is not 0.
func changeWords(c tune.Change) string {
	if p := c.Part(c.To - c.From); !math.IsNaN(p) {
		return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", 100*p, 100*c.Part(c.Low), 100*c.Part(c.High))
	}
	return fmt.Sprintf("%+.2f (%+.2f to %+.2f)", c.To-c.From, c.Low, c.High)
}

// words are the recommended change and its diff, or why there is none.
func (t *tuning) words(d *tuned) (said, diff string) {
	if d.choice.Setting == nil {
		return "No change is recommended: " + d.choice.Why + ".", ""
	}
	said = fmt.Sprintf("Recommended: %s: %s against now in the blocks that did not choose it, %s in those that did.", goalWords[t.aim.Goal], changeWords(d.choice.Worth), changeWords(d.choice.Chosen))
	var b strings.Builder
	path := t.cfg
	if path == "" {
		path = config.DefaultPath
	}
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", path, path)
	section := ""
	for _, l := range d.lines {
		if l.Section != section {
			section = l.Section
			fmt.Fprintf(&b, " [%s]\n", section)
		}
		if l.Old != "" {
			fmt.Fprintf(&b, "-%s\n", l.Old)
		}
		worth := ""
		if l.Worth != nil {
			worth = "  # " + changeWords(*l.Worth)
		}
		fmt.Fprintf(&b, "+%s%s\n", l.New, worth)
	}
	return said, b.String()
}

// plots show the goal against each other figure.
func (t *tuning) plots(front []*tune.Setting) (plots []report.Figure) {
	for _, g := range tune.Goals {
		if g == t.aim.Goal {
			continue
		}
		f := report.Figure{Title: goalWords[t.aim.Goal] + " and " + goalWords[g], XLabel: goalWords[t.aim.Goal], YLabel: goalWords[g], Scatter: true}
		on, off := report.Curve{Name: "on the front"}, report.Curve{Name: "others"}
		for _, s := range t.settings {
			x, y := s.All(t.aim.Goal), s.All(g)
			if s.Blocks == nil || math.IsNaN(x) || math.IsNaN(y) {
				continue
			}
			to := &off
			if slices.Contains(front, s) {
				to = &on
			}
			to.X, to.Y = append(to.X, x), append(to.Y, y)
		}
		for _, curve := range []report.Curve{on, off} {
			if len(curve.X) > 0 {
				f.Curves = append(f.Curves, curve)
			}
		}
		if len(f.Curves) > 0 {
			plots = append(plots, f)
		}
	}
	return plots
}

// asJSON is the study for programs.
func (t *tuning) asJSON(d *tuned, front []*tune.Setting) any {
	type setting struct {
		Set     []string               `json:"set"`
		Figures map[tune.Goal]*float64 `json:"figures"` // null: no block has it
		Against *tune.Change           `json:"against_now"`
		Front   bool                   `json:"front"`
		Failed  bool                   `json:"failed"`
	}
	all := []setting{}
	for _, s := range t.settings {
		x := setting{Set: append([]string{}, s.Set...), Figures: map[tune.Goal]*float64{}, Front: slices.Contains(front, s), Failed: s.Blocks == nil}
		for _, g := range tune.Goals {
			if v := s.All(g); !math.IsNaN(v) && !x.Failed {
				x.Figures[g] = &v
			}
		}
		if s != d.now && !x.Failed && d.now.Blocks != nil {
			change := tune.Between(d.now.Blocks, s.Blocks, t.aim.Goal, d.report)
			x.Against = &change
		}
		all = append(all, x)
	}
	out := map[string]any{"goal": t.aim.Goal, "bounds": t.aim.Bounds, "jobs": len(t.jobs), "blocks": t.blocks, "block_s": t.length, "settings": all, "lines": append([]tunedLine{}, d.lines...)}
	if s := d.choice.Setting; s != nil {
		out["recommended"], out["chosen_by"], out["worth"] = s.Set, d.choice.Chosen, d.choice.Worth
	} else {
		out["recommended"], out["why"] = nil, d.choice.Why
	}
	return out
}
