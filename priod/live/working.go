package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/live/tail"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

const (
	sstatAtOnce   = 50               // jobs whose nodes sstat asks in one turn
	outputsAtOnce = 6                // files that are looked at in one turn
	stepsTurns    = 5                // turns from one read of all steps to the next
	afterFailure  = time.Hour        // a source that failed is not asked again for so long; Prometheus, which costs Slurm nothing, is
	standsFor     = 10 * time.Minute // what a source showed of one job counts so long
)

// Sources are what beside Slurm's poll shows which jobs work.
type Sources struct {
	Prometheus string // its address; "": none
	Output     bool   // whether the output of jobs may be read
	Every      time.Duration
}

// Watching sets the sources of Signs.
func (c *Cluster) Watching(s Sources) *Cluster {
	c.working = &working{set: s, jobs: map[cluster.JobID]*seen{}, outputs: tail.NewReader()}
	return c
}

// working is what sources last showed. They are asked beside the cycles, one turn after the other.
type working struct {
	set     Sources
	outputs *tail.Reader

	mu    sync.Mutex
	turns int
	busy  bool
	next  time.Time
	gpus  *gpuReading
	heeds time.Time // the last reading of GPUs that a cycle heeded
	jobs  map[cluster.JobID]*seen
	errs  map[string]error     // by source
	rests map[string]time.Time // of sources that failed
}

// seen is what is known of one job.
type seen struct {
	start  time.Time
	asked  time.Time // when sources last looked at this job alone
	work   slurmplug.Work
	workAt time.Time
	output plan.Mark
	path   string
	wrote  time.Time // when its output was first seen as it is
	writes int       // times that it changed
	tasks  bool      // a step of srun was seen
	signs  map[string]stamped
}

type stamped struct {
	cluster.Sign
	at time.Time
}

// Signs returns what the sources last showed, and begins another turn when it is time. wanted are the jobs of which no source is
// sure; what is read for each job alone is read for them. The error names the sources that fail.
func (c *Cluster) Signs(_ context.Context, s *cluster.Snapshot, wanted []cluster.JobID) (map[cluster.JobID][]cluster.Sign, error) {
	w := c.working
	if w == nil {
		return nil, nil
	}
	running := map[cluster.JobID]*cluster.Job{}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Running && j.GPUs > 0 {
			running[j.ID] = j
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.jobs, func(id cluster.JobID, x *seen) bool { return running[id] == nil || !running[id].Start.Equal(x.start) })
	if now := time.Now(); !w.busy && !now.Before(w.next) && len(running) > 0 {
		w.busy, w.next = true, now.Add(w.set.Every)
		go w.turn(c.client, c.conf.Superuser(), w.chosen(running, wanted))
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(w.errs)) {
		errs = append(errs, fmt.Errorf("%s: %w", name, w.errs[name]))
	}
	return w.signs(running), errors.Join(errs...)
}

// chosen are copies of the jobs that a turn looks at alone: those that were looked at the longest time ago.
func (w *working) chosen(running map[cluster.JobID]*cluster.Job, wanted []cluster.JobID) (all []cluster.Job) {
	for _, id := range wanted {
		if j := running[id]; j != nil && j.HetLeader == 0 {
			if w.jobs[id] == nil {
				w.jobs[id] = &seen{start: j.Start, signs: map[string]stamped{}}
			}
			all = append(all, *j)
		}
	}
	slices.SortStableFunc(all, func(a, b cluster.Job) int { return w.jobs[a.ID].asked.Compare(w.jobs[b.ID].asked) })
	return all
}

// signs are those that still stand.
func (w *working) signs(running map[cluster.JobID]*cluster.Job) map[cluster.JobID][]cluster.Sign {
	all, now := make(map[cluster.JobID][]cluster.Sign, len(running)), time.Now()
	for id, x := range w.jobs {
		for _, s := range x.signs {
			if now.Sub(s.at) < standsFor {
				all[id] = append(all[id], s.Sign)
			}
		}
	}
	if w.gpus == nil || now.Sub(w.gpus.at) > 3*w.set.Every+prometheusPatience {
		return all
	}
	w.heeds = w.gpus.at
	hosts, sharers := map[cluster.JobID][]string{}, map[string]int{}
	if len(w.gpus.nodes) > 0 {
		for id, j := range running {
			hosts[id], _ = slurmplug.ExpandHosts(j.NodeList)
			for _, h := range hosts[id] {
				sharers[h]++
			}
		}
	}
	for id, j := range running {
		if sign, tells := w.gpus.sign(j, hosts[id], sharers); tells {
			all[id] = append(all[id], sign)
		}
	}
	return all
}

// turn asks the sources once.
func (w *working) turn(client *slurmplug.Client, superuser bool, jobs []cluster.Job) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w.mu.Lock()
	turn, since := w.turns, w.set.Every
	if !w.heeds.IsZero() {
		since = min(max(time.Since(w.heeds), since), standsFor)
	}
	w.turns++
	w.mu.Unlock()
	if w.set.Prometheus != "" {
		gpus, err := askPrometheus(ctx, w.set.Prometheus, since)
		w.heard(cluster.FromPrometheus, err, 0, func() { w.gpus = gpus })
	}
	if len(jobs) > 0 && turn%stepsTurns == 0 && w.asks(cluster.FromSteps) {
		steps, err := client.RunningSteps(ctx)
		w.heard(cluster.FromSteps, err, afterFailure, func() { w.sawSteps(jobs, steps) })
	}
	if superuser && len(jobs) > 0 && w.asks(cluster.FromSstat) {
		some := jobs[:min(len(jobs), sstatAtOnce)]
		raw := make([]uint32, len(some))
		for i := range some {
			raw[i] = some[i].RawID
		}
		used, err := client.Work(ctx, raw)
		w.heard(cluster.FromSstat, err, afterFailure, func() { w.sawWork(some, used, time.Now()) })
	}
	if w.set.Output && w.asks(cluster.FromOutput) {
		w.readOutputs(ctx, client, jobs[:min(len(jobs), outputsAtOnce)])
	}
	w.mu.Lock()
	w.busy = false
	w.mu.Unlock()
}

func (w *working) asks(source string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !time.Now().Before(w.rests[source])
}

// heard takes in an answer, or that there was none.
func (w *working) heard(source string, err error, rest time.Duration, take func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.errs == nil {
		w.errs, w.rests = map[string]error{}, map[string]time.Time{}
	}
	if delete(w.errs, source); err != nil {
		w.errs[source], w.rests[source] = err, time.Now().Add(rest)
		return
	}
	take()
}

// sawSteps takes in the steps that run. A job without one shows no work where it has had some, and the shell of salloc,
// which has none; whatever else a batch script runs is no step.
func (w *working) sawSteps(jobs []cluster.Job, steps map[slurmplug.JobID]slurmplug.RunningSteps) {
	for i := range jobs {
		j := &jobs[i]
		x, s := w.jobs[j.ID], steps[j.ID]
		if x == nil {
			continue
		}
		x.tasks = x.tasks || s.Tasks > 0
		if delete(x.signs, cluster.FromSteps); s.Tasks == 0 && !s.Interactive && (x.tasks || j.Interactive) {
			x.signs[cluster.FromSteps] = stamped{cluster.Sign{Shows: cluster.Steps, Source: cluster.FromSteps}, time.Now()}
		}
	}
}

// quietCPUs is how many CPUs for each GPU a job uses that does nothing, at most.
const quietCPUs = 0.05

// sawWork takes in what steps have used so far: since the last time, a job used CPUs or did not.
func (w *working) sawWork(jobs []cluster.Job, used map[uint32]slurmplug.Work, at time.Time) {
	for i := range jobs {
		j := &jobs[i]
		x := w.jobs[j.ID]
		if x == nil {
			continue
		}
		now, measured := used[j.RawID]
		x.asked = at
		if !measured {
			x.workAt = time.Time{}
			continue
		}
		if span := at.Sub(x.workAt); !x.workAt.IsZero() && span > 0 && now.CPU >= x.work.CPU { // else a step has ended meanwhile
			cpus := (now.CPU - x.work.CPU).Seconds() / span.Seconds()
			x.signs[cluster.FromSstat] = stamped{cluster.Sign{Shows: cluster.CPUs, Source: cluster.FromSstat, Works: cpus >= quietCPUs*float64(j.GPUs), Value: cpus}, at}
		}
		if now.GPUUse > idleUse && now.GPUUse > x.work.GPUUse { // the largest so far: that it stands says nothing
			x.signs[cluster.FromSstat] = stamped{cluster.Sign{Shows: cluster.GPUs, Source: cluster.FromSstat, Works: true, Value: now.GPUUse}, at}
		}
		x.work, x.workAt = now, at
	}
}

// readOutputs looks whether jobs have written to their output since the last time.
func (w *working) readOutputs(ctx context.Context, client *slurmplug.Client, jobs []cluster.Job) {
	for i := range jobs {
		j := &jobs[i]
		written, err := client.WrittenTo(ctx, j.ID, j.RawID)
		path := ""
		if err == nil {
			path, err = written.Path(j.RawID)
		}
		w.mu.Lock()
		x := w.jobs[j.ID]
		if x != nil {
			x.asked = time.Now()
		}
		w.mu.Unlock()
		if err != nil || x == nil {
			continue
		}
		reading := w.outputs.Begin(tail.Run{Job: j.ID, Began: j.Start, Restarts: j.Restarts}, written.UID, tail.Request{Path: path, Began: j.Start})
		go func() { // a folder that hangs keeps nothing waiting
			<-reading.Done
			w.mu.Lock()
			defer w.mu.Unlock()
			if x.path = path; reading.Err == nil {
				w.sawOutput(x, reading.End, time.Now())
			} else {
				delete(x.signs, cluster.FromOutput)
			}
		}()
	}
}

// sawOutput takes in where a job's output ends. That it stands still says something of a job that has written often, into a
// file of its own.
func (w *working) sawOutput(x *seen, end plan.Mark, at time.Time) {
	for _, other := range w.jobs {
		if other != x && other.path == x.path {
			delete(x.signs, cluster.FromOutput)
			delete(other.signs, cluster.FromOutput)
			return
		}
	}
	sign := cluster.Sign{Shows: cluster.Output, Source: cluster.FromOutput}
	if end != x.output {
		if sign.Works = !x.wrote.IsZero(); sign.Works {
			x.writes++
		}
		x.output, x.wrote = end, at
	}
	sign.Value = at.Sub(x.wrote).Seconds()
	if delete(x.signs, cluster.FromOutput); sign.Works || x.writes >= 3 {
		x.signs[cluster.FromOutput] = stamped{sign, at}
	}
}
