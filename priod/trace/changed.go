package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Changed says how the cluster on which runs had GPUs differs from today's nodes, which a replay has from its beginning to its end:
// nodes that are gone, and nodes that have run GPU jobs since some time only, where most others did in the first quarter. Accounting
// does not tell when slurm.conf changed.
func Changed(runs []slurmplug.Run, today map[string]bool) (notes []string) {
	const how = "; --cluster with --node-events says when nodes come and go"
	spans, hosts := map[string]cluster.Stay{}, map[string][]string{} // of nodes; names of node lists
	var from, until time.Time
	for i := range runs {
		r := &runs[i]
		if r.Start.IsZero() || !strings.Contains(r.AllocTRES, "gres/gpu") {
			continue
		}
		names, known := hosts[r.NodeList]
		if !known {
			names, _ = slurmplug.ExpandHosts(r.NodeList) // "None assigned" is no list
			hosts[r.NodeList] = names
		}
		for _, name := range names {
			x, seen := spans[name]
			if !seen || r.Start.Before(x.Start) {
				x.Start = r.Start
			}
			x.End = cluster.Later(x.End, r.End)
			spans[name] = x
		}
		if from.IsZero() || r.Start.Before(from) {
			from = r.Start
		}
		until = cluster.Later(until, r.End)
	}
	var gone, late []string
	var last, first time.Time
	for name, x := range spans {
		switch {
		case !today[name]:
			gone, last = append(gone, name), cluster.Later(last, x.End)
		case x.Start.Sub(from) > until.Sub(from)/4:
			late = append(late, name)
			if first.IsZero() || x.Start.Before(first) {
				first = x.Start
			}
		}
	}
	said := func(names []string) string {
		slices.Sort(names)
		return fmt.Sprintf("%d nodes (%s)", len(names), slurmplug.CompactHosts(names))
	}
	if len(gone) > 0 {
		notes = append(notes, fmt.Sprintf("%s ran GPU jobs until %s and are gone: the replay has today's nodes all the time%s", said(gone), last.Local().Format(time.DateTime), how))
	}
	if len(late) > 0 && 2*len(late) < len(spans)-len(gone) {
		notes = append(notes, fmt.Sprintf("%s have run GPU jobs since %s only: the replay has them from its beginning%s", said(late), first.Local().Format(time.DateTime), how))
	}
	return notes
}
