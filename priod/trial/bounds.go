package trial

import (
	"fmt"
	"slices"
	"time"
)

// fewest jobs of on blocks, and of off blocks, are needed before a bound counts.
const fewest = 20

// Harm says by which bound a trial harms; "": by none.
func Harm(t *Trial, jobs []Job, now time.Time) string {
	var waits []float64
	on, off := map[string][]float64{}, map[string][]float64{}
	for i := range jobs {
		s := seen{Job: &jobs[i], until: jobs[i].End}
		b, in := t.At(s.Submit)
		if !in || s.GPUs == 0 || s.Submit.Before(b.Counts) {
			continue
		}
		if s.until.IsZero() {
			s.until = now
		}
		switch {
		case b.Off:
			off[s.Account] = append(off[s.Account], s.completion().Seconds())
			continue
		case s.TE:
			waits = append(waits, s.waited().Seconds())
		}
		on[s.Account] = append(on[s.Account], s.completion().Seconds())
	}
	if limit := t.Bounds.TEWaitP95.Seconds(); limit > 0 && len(waits) >= fewest {
		if p95 := quantile(0.95)(waits); p95 > limit {
			return fmt.Sprintf("while priod is on, of trial-and-error jobs one in twenty waits longer than %.0f s; the bound is %.0f s", p95, limit)
		}
	}
	if t.Bounds.Completion == 0 {
		return ""
	}
	var accounts []string
	for account := range on {
		accounts = append(accounts, account)
	}
	slices.Sort(accounts)
	r := Analyse(t, jobs, now)
	for _, account := range accounts {
		if len(on[account]) < fewest || len(off[account]) < fewest {
			continue
		}
		times := mean(on[account]) / mean(off[account])
		surely := slices.ContainsFunc(r.Accounts, func(e Effect) bool { return e.Account == account && e.Harms() })
		if times > t.Bounds.Completion && surely {
			return fmt.Sprintf("while priod is on, jobs of account %s take %.2f times as long in the mean; the bound is %.2f, and the interval of 90 %% has no gain", account, times, t.Bounds.Completion)
		}
	}
	return ""
}
