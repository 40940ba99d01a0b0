package cluster

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/slurmplug"
)

// Window is a time in which nodes are reserved as a whole, for maintenance above all: no job starts on them whose time limit
// reaches into it, but those of the reservation.
type Window struct {
	Name  string
	Start time.Time
	End   time.Time
	Nodes []string
}

// WindowsOf are the windows of Slurm's reservations. Those of priod itself are none, nor are those of parts of nodes.
func WindowsOf(all []slurmplug.NodeReservation, now time.Time) (windows []Window) {
	for _, r := range all {
		if r.Nodes == "" || r.Part || r.Start.IsZero() || !r.End.After(r.Start) || !r.End.After(now) || OwnReservation(r.Name) {
			continue
		}
		if nodes, err := slurmplug.ExpandHosts(r.Nodes); err == nil {
			windows = append(windows, Window{r.Name, r.Start, r.End, nodes})
		}
	}
	slices.SortStableFunc(windows, func(a, b Window) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Name, b.Name)) })
	return windows
}

// WindowAhead is the next window on the nodes of a job that runs since start, or the one that they are in; nil: with its own limit,
// below 0 where it has none, it ends before.
func WindowAhead(windows []Window, nodeList string, start time.Time, own time.Duration, now time.Time) *Window {
	hosts, err := slurmplug.ExpandHosts(nodeList)
	if err != nil {
		return nil
	}
	for i := range windows {
		w := &windows[i]
		if w.End.After(now) && slices.ContainsFunc(hosts, func(h string) bool { return slices.Contains(w.Nodes, h) }) {
			if own > 0 && !start.Add(own).After(w.Start) {
				return nil
			}
			return w
		}
	}
	return nil
}
