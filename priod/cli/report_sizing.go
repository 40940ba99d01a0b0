package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/view"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/sensitivity"
)

func reportSizing(c *cli.Context, cfg *config.Config) error {
	last, err := span(c, "report", true)
	if err != nil {
		return err
	}
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		return err
	}
	slurm := live.New(newClient(cfg))
	snapshot, err := slurm.Observe(c.Context)
	if err != nil {
		return fmt.Errorf("read Slurm: %w", err)
	}
	var past sensitivity.Past
	var shares map[string]sensitivity.Share
	used := &live.Used{}
	if last > 0 {
		now, set := time.Now(), cfg.SpeedSettings()
		used, err = slurm.Used(c.Context, now.Add(-last), now, set.Today)
		if err != nil {
			return fmt.Errorf("read accounting: %w", err)
		}
		past, shares = sensitivity.Learn(used.Stays, cfg.Constants.ShortestRun), used.Shares
	}
	s := view.OfSizing(&snapshot, table, past, shares)
	holding := s.Holding(&snapshot)
	peaks, unasked := slurm.Peaks(c.Context, holding)
	s.SetPeaks(holding, peaks)
	s.Unread = unreadRows(slurm)
	if err := writePage(c, func() *report.Page { return sizingPage(s) }); err != nil {
		return err
	}
	return answer(c, s, func(w io.Writer) {
		showSizing(w, s)
		switch {
		case unasked != nil:
			fmt.Fprintf(w, "\nWhat running jobs use of their memory is not known: %v\n", unasked)
		case len(holding) > 0 && len(peaks) == 0:
			fmt.Fprintf(w, "\nWhat running jobs use of their memory is not known: %s.\n", unmeasured(c, slurm, nil, 0))
		}
		switch {
		case last > 0 && len(past) == 0:
			fmt.Fprintf(w, "\nAccounting says of no run with GPUs what it used: %s.\n", unmeasured(c, slurm, used.Stays, cfg.Constants.ShortestRun))
		case last > 0 && len(s.Programs) == 0:
			fmt.Fprintln(w, "\nNo program in accounting had twice the CPUs or the memory that it can use.")
		}
		showUnread(w, s.Unread)
	})
}

// sizingRows is how many rows of each table a terminal shows.
const sizingRows = 20

func showSizing(w io.Writer, s *view.Sizing) {
	fmt.Fprintln(w, sizingWords(s))
	showTables(w, sizingTables(s), sizingRows, "--json")
}

func sizingWords(s *view.Sizing) string {
	stranded := "each with its share of its node's CPUs and memory"
	if s.Stranded > 0 {
		stranded = fmt.Sprintf("%d of them stranded: their nodes lack the CPUs or the memory of their share", s.Stranded)
	}
	return fmt.Sprintf("%d of %d GPUs are free, %s.", s.Free, s.GPUs, stranded)
}

// sizingPage shows the same with a plot.
func sizingPage(s *view.Sizing) *report.Page {
	return &report.Page{
		Title: "CPUs and memory of GPU nodes", Words: []string{sizingWords(s)}, Tables: sizingTables(s),
		Plots: []report.Figure{{Title: "GPUs", YLabel: "GPUs", Bars: []report.Bar{
			{Name: "in use", Value: float64(s.GPUs - s.Free)}, {Name: "free, with their share", Value: float64(s.Free - s.Stranded)}, {Name: "stranded", Value: float64(s.Stranded)},
		}}},
	}
}

// sizingTables are the same for a page and for a terminal.
func sizingTables(s *view.Sizing) []report.PageTable {
	return []report.PageTable{
		tableOf("NODE", []string{"NODE", "TYPE", "FREE GPUS", "FREE CPUS", "FREE MB", "STRANDED FOR CPUS", "FOR MEMORY", "CPU-ONLY JOBS HOLD CPUS", "MB"}, s.Nodes, func(n *view.StrandedOn) []any {
			return []any{n.Node, n.GPUType, n.FreeGPUs, n.FreeCPUs, n.FreeMemMB, n.ForCPUs, n.ForMem, n.CPUOnlyCPUs, n.CPUOnlyMemMB}
		}),
		tableOf("Jobs without GPUs that hold CPUs and memory there", []string{"JOB", "USER", "NODES", "CPUS", "MB"}, s.CPUOnly, func(j *view.CPUOnlyJob) []any {
			return []any{j.Job.String(), j.User, j.Nodes, j.CPUs, j.MemMB}
		}),
		tableOf("These hold memory there that their steps have not used so far; a quarter more than they used, at least 1024 MB, is left to them",
			[]string{"JOB", "USER", "NODE", "GPUS", "MB", "USED AT MOST", "IDLE"}, s.Idle, func(j *view.IdleMemory) []any {
				return []any{j.Job.String(), j.User, j.Node, j.GPUs, j.MemMB, j.Peak, j.Idle}
			}),
		tableOf("Slower than possible next to idle CPUs", []string{"JOB", "USER", "NODE", "CPUS", "WANTS", "IDLE THERE", "TIMES FASTER", "BY"}, s.Starving,
			func(j *view.StarvingJob) []any {
				return []any{j.Job.String(), j.User, j.Node, j.CPUs, j.Wants, j.Idle, fmt.Sprintf("%.2f", j.Gain), j.Why}
			}),
		tableOf("These had far more for each GPU than they used. What is enough can stand in the next script in place of its -c and --mem, times its GPUs "+
			"(--cpus-per-gpu and --mem-per-gpu would keep priod from sizing the job)",
			[]string{"PROGRAM", "TYPE", "RUNS", "HAD CPUS", "USED CPUS", "HAD MB", "USED MB", "ENOUGH"}, s.Programs, func(p *view.Overasked) []any {
				return []any{p.Program, p.GPUType, p.Runs, fmt.Sprintf("%.3g", p.Had), fmt.Sprintf("%.2g", p.Used), megabytes(p.HadMB), megabytes(p.UsedMB), p.Options}
			}),
	}
}

// megabytes are "-" where accounting has none.
func megabytes(mb float64) string {
	if mb == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", mb)
}
