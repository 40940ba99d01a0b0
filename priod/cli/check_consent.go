package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"slurmprio/priod/config"
	"slurmprio/priod/consent"
	"slurmprio/priod/live"
)

// checkConsent says of each class rule and consent table how many jobs of the queue it touches now, and which
// partitions it names that there are none of.
func checkConsent(ctx context.Context, slurm *live.Cluster, cfg *config.Config) (findings []live.Finding) {
	rules := cfg.ConsentRules()
	if len(rules.Classes)+len(rules.Tables) == 0 {
		return nil
	}
	view, err := slurm.View(ctx)
	if err != nil {
		return []live.Finding{{Level: live.Warn, Name: "consent", Text: "the queue cannot be read: " + err.Error()}}
	}
	var partitions []string
	for i := range view.Partitions {
		partitions = append(partitions, view.Partitions[i].Name)
	}
	touched, gpuJobs := map[string]int{}, 0
	jobs := slices.Clone(view.Snapshot.Jobs)
	for i := range jobs {
		if jobs[i].GPUs > 0 {
			gpuJobs += max(jobs[i].TaskCount, 1)
		}
		rules.Complete(&jobs[i])
		if site := jobs[i].Site; site != nil {
			touched["class "+site.Class] += max(jobs[i].TaskCount, 1)
			touched["consent "+site.Consent] += max(jobs[i].TaskCount, 1)
		}
	}
	for i := range rules.Classes {
		c := &rules.Classes[i]
		f := ruleFinding("class rule "+c.Name+" makes "+c.Words(), &c.Match, partitions, touched["class "+c.Name])
		if n := touched["class "+c.Name]; f.Level == live.Pass && c.Type == "te" && n >= manyJobs && n == gpuJobs {
			f.Level, f.Fix = live.Warn, "a condition such as max_time = \"1h\" in the table in priod.toml"
			f.Text += ": all GPU jobs; if all are TE none is preferred, and only te_budget limits them"
		}
		findings = append(findings, f)
	}
	for i := range rules.Tables {
		t := &rules.Tables[i]
		findings = append(findings, ruleFinding("consent for "+t.Words(), &t.Match, partitions, touched["consent "+t.Match.Words()]))
	}
	return findings
}

// manyJobs is from how many jobs on a rule that fits all is worth a word.
const manyJobs = 20

// ruleFinding is the finding of one rule.
func ruleFinding(words string, m *consent.Match, partitions []string, jobs int) live.Finding {
	gone := slices.DeleteFunc(slices.Clone(m.Partitions), func(p string) bool { return slices.Contains(partitions, p) })
	if len(gone) > 0 {
		return live.Finding{Level: live.Warn, Name: "consent", Text: fmt.Sprintf("%s; this Slurm has no partition %s", words, strings.Join(gone, ", ")), Fix: "partitions of the table in priod.toml"}
	}
	return live.Finding{Level: live.Pass, Name: "consent", Text: fmt.Sprintf("%s; %d jobs of the queue now", words, jobs)}
}
