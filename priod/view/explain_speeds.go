package view

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
)

// jobSpeeds are a job's speeds: those that its allocation was made with, else what
// the sources say now.
func (v *Explanation) jobSpeeds(ctx context.Context, cfg *config.Config, r *store.Reader, name string) error {
	if v.Share != nil {
		v.Speeds = &speed.Answers{Notes: v.Share.Notes}
		for _, t := range v.Share.Types {
			v.Speeds.Speeds = append(v.Speeds.Speeds, speed.Answer{GPUType: t.GPUType, Speed: t.Speed, Source: t.Source, Factor: t.Factor, Runs: t.Runs})
		}
		return nil
	}
	if v.Job.GPUs == 0 || v.Now == nil {
		return nil
	}
	types, err := r.GPUTypes(ctx)
	if err != nil || len(types) == 0 {
		return err
	}
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		v.Speeds = &speed.Answers{Notes: []string{err.Error()}}
		return nil
	}
	j := speed.Job{Tag: v.Job.Said, User: v.Job.User, Name: name, GPUs: v.Job.GPUs}
	learned, err := Learned(ctx, cfg, r, table, &j)
	set := cfg.SpeedSettings()
	answers := set.For(&j, types, table, learned)
	v.Speeds = &answers
	return err
}

// showSpeeds is a line for each type, or one when unknown.
func (v *Explanation) showSpeeds(line liner) {
	if v.Speeds == nil {
		return
	}
	head := "Speed"
	known := slices.ContainsFunc(v.Speeds.Speeds, func(a speed.Answer) bool { return a.Source != speed.None })
	if !known && len(v.Speeds.Speeds) > 1 {
		var types []string
		for _, a := range v.Speeds.Speeds {
			types = append(types, a.GPUType)
		}
		line(head, "unknown, assumed equal on %s", list(types))
		head = ""
	}
	for _, a := range v.Speeds.Speeds {
		if !known {
			break
		}
		line(head, "%s: %s", a.GPUType, speedWords(&a))
		head = ""
	}
	for _, n := range v.Speeds.Notes {
		line(head, "%s", n)
		head = ""
	}
}

// list joins names as a sentence does.
func list(names []string) string {
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// speedWords are a speed on one type with its source and its doubt.
func speedWords(a *speed.Answer) string {
	sure := ""
	if a.Factor > 1 {
		sure = fmt.Sprintf(" within a factor %.2f", a.Factor)
	}
	switch {
	case a.Speed == 0 && a.Source == speed.None:
		return "cannot run there; speed unknown"
	case a.Speed == 0:
		return "cannot run there"
	case a.Source == speed.None:
		return fmt.Sprintf("unknown, assumed %.2f%s, as on the other types", a.Speed, sure)
	case a.Source == speed.Past:
		sure += fmt.Sprintf(", %s there", report.Plural(a.Runs, "run", "runs"))
	}
	return fmt.Sprintf("%.2f%s, by %s", a.Speed, sure, a.Source.Words())
}

// showShare says what the allocation gives the job, and what it had.
func (v *Explanation) showShare(all bool, line liner) {
	if v.Share == nil || !all && !slices.ContainsFunc(v.Share.Types, func(t store.ShareOfType) bool { return telling(&t) }) {
		return
	}
	head := "Allocated"
	var untouched []string
	for _, t := range v.Share.Types {
		switch {
		case !all && !telling(&t):
			continue
		case !all:
			line(head, "%s: %s of its time%s", t.GPUType, percent(*t.Time), v.owedWords(&t))
		case t.RunS == nil:
			line(head, "%s: it cannot run there", t.GPUType)
		case t.Time == nil:
			line(head, "%s: nothing yet", t.GPUType)
		default:
			if *t.Time > 0 && t.Received == 0 {
				untouched = append(untouched, t.GPUType)
			}
			owed := fmt.Sprintf("%s owed", report.Seconds(t.OwedS))
			if t.OwedS < 0 {
				owed = fmt.Sprintf("%s more than was promised", report.Seconds(-t.OwedS))
			}
			line(head, "%s: %s of its time; received %s there, %s; it would run %s", t.GPUType, percent(*t.Time), report.Seconds(t.ReceivedS), owed, report.Seconds(*t.RunS))
		}
		head = ""
	}
	if !all {
		return
	}
	had := fmt.Sprintf("the best of allocated over received since %s is %.3g", report.Clock(v.Share.Since), v.Share.Priority)
	if len(untouched) > 0 {
		had = fmt.Sprintf("it has had no time on %s since %s, when the present count of received shares began", strings.Join(untouched, ", "), report.Clock(v.Share.Since))
	}
	line("", "%s; figures of %s", had, report.Clock(v.Share.At))
}

// percent is a share for a person, to three figures.
func percent(share float64) string {
	if share > 0 && share < 0.001 {
		return "less than 0.1 %"
	}
	return fmt.Sprintf("%.3g %%", 100*share)
}
