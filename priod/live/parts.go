package live

import (
	"context"
	"errors"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// mostAsked is for how many jobs one poll asks what they hold of each node: after a start of priod,
// thousands may be running.
const mostAsked = 64

// partsCache remembers what running jobs on several nodes hold of each of them. squeue shows only the
// sum; scontrol shows the rest of one job at a time, and it stays the same while the job runs.
type partsCache struct{ last, now map[cluster.JobID]*runParts }

// runParts are the parts of one run.
type runParts struct {
	run   cluster.Job // the fields that report whether it is still the same run, of the same size
	parts []cluster.Part
	why   string // they cannot be read
}

// isOf reports whether a job is still the run that the parts were read of.
func (r *runParts) isOf(j *cluster.Job) bool {
	return j.IsRun(r.run.Start, r.run.Restarts) && r.run.NodeList == j.NodeList &&
		r.run.GPUs == j.GPUs && r.run.CPUs == j.CPUs && r.run.MemMB == j.MemMB
}

// addParts fills in the Parts of the running jobs with GPUs on several nodes. A job that cannot be
// read stays without, is named, and is not asked again during its run.
func (c *Cluster) addParts(ctx context.Context, jobs []cluster.Job) (odd []cluster.UnreadRecord) {
	p := &c.parts
	p.now = make(map[cluster.JobID]*runParts, len(p.last))
	var asked []*cluster.Job
	for i := range jobs {
		j := &jobs[i]
		if j.State == cluster.Pending || j.State == cluster.Unread || j.GPUs == 0 || j.Nodes < 2 && !severalHosts(j.NodeList) {
			continue
		}
		if known := p.last[j.ID]; known != nil && known.isOf(j) {
			p.now[j.ID], j.Parts = known, known.parts
			if known.why != "" {
				odd = append(odd, cluster.UnreadRecord{Kind: cluster.UnreadParts, Name: j.ID.String(), Why: known.why})
			}
		} else if j.State == cluster.Running && len(asked) < mostAsked {
			asked = append(asked, j)
		}
	}
	if len(asked) > 0 {
		odd = append(odd, c.askParts(ctx, asked)...)
	}
	p.last, p.now = p.now, nil
	return odd
}

// severalHosts reports whether a list names more than one host.
func severalHosts(list string) bool {
	hosts, err := slurmplug.ExpandHosts(list)
	return err == nil && len(hosts) > 1
}

func (c *Cluster) askParts(ctx context.Context, jobs []*cluster.Job) (odd []cluster.UnreadRecord) {
	_, _ = c.closer(ctx, idsOf(jobs), func(ctx context.Context, i int, record *slurmplug.Job) (func(), error) {
		if record == nil {
			return nil, slurmplug.ErrNoJob
		}
		shown, err := c.client.Parts(ctx, record)
		if err != nil && !errors.Is(err, slurmplug.ErrDoubtful) {
			return nil, err // it ended, or the next poll asks again
		}
		j := jobs[i]
		r := &runParts{run: cluster.Job{Start: j.Start, Restarts: j.Restarts, NodeList: j.NodeList, GPUs: j.GPUs, CPUs: j.CPUs, MemMB: j.MemMB}}
		if err == nil {
			r.parts = orderedParts(j, shown)
		} else {
			r.why = err.Error()
		}
		return func() {
			if c.parts.now[j.ID] = r; r.why != "" {
				odd = append(odd, cluster.UnreadRecord{Kind: cluster.UnreadParts, Name: j.ID.String(), Why: r.why})
			}
			j.Parts = r.parts
		}, nil
	})
	return odd
}

// orderedParts orders what scontrol shows of a job's nodes as its NodeList is; nil where it is not all, or
// adds up to something else than squeue shows: scontrol cuts long lists of CPUs off.
func orderedParts(j *cluster.Job, shown []slurmplug.NodePart) []cluster.Part {
	hosts, err := slurmplug.ExpandHosts(j.NodeList)
	if err != nil || len(hosts) != len(shown) {
		return nil
	}
	by := make(map[string]cluster.Part, len(shown))
	left := cluster.Part{GPUs: j.GPUs, CPUs: j.CPUs, MemMB: j.MemMB}
	for _, s := range shown {
		by[s.Node] = cluster.Part{GPUs: s.GPUs, CPUs: s.CPUs, MemMB: s.MemMB}
		left = cluster.Part{GPUs: left.GPUs - s.GPUs, CPUs: left.CPUs - s.CPUs, MemMB: left.MemMB - s.MemMB}
	}
	if left != (cluster.Part{}) {
		return nil
	}
	parts := make([]cluster.Part, len(hosts))
	for i, h := range hosts {
		part, known := by[h]
		if !known {
			return nil
		}
		parts[i] = part
	}
	return parts
}
