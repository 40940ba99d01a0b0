package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/simulate"
	"slurmprio/priod/store"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// recordTo is the flag of priod simulate that names the folder; readers have one of the same name.
const recordTo = "state"

// monday is second 0 of a trace that does not say when it was.
var monday = time.Date(2024, 1, 1, 0, 0, 0, 0, time.Local)

// recording has both runs of a comparison recorded.
type recording struct {
	folder *store.ReplayFolder
	origin time.Time
	number func(id string, place int) cluster.JobID // nil: the trace's ids are none of Slurm's
	config []byte                                   // the file
	set    []string                                 // keys over it
	jobs   int
	note   string
	sides  map[string]*simulate.Recording

	submitted int // jobs, on the side under way
}

// recordRuns is priod simulate --state.
func recordRuns(ctx context.Context, c *cli.Context) error {
	dir := c.String(recordTo)
	if dir == "" {
		return usagef("simulate: --state wants a folder")
	}
	folder, err := store.BeginReplay(dir)
	if err != nil {
		return err
	}
	to := &recording{folder: folder, sides: map[string]*simulate.Recording{}}
	r, err := comparison(ctx, c, to)
	if err == nil {
		err = to.finish(c, r)
	}
	if err != nil && ctx.Err() != nil {
		return to.stopped(c, dir)
	}
	if err != nil {
		folder.Discard()
		return err
	}
	if to.note != "" {
		fmt.Fprintf(c.App.ErrWriter, "priod: note: %s\n", to.note)
	}
	if err := writeTo(c, "jobs-out", r.last.writeJobs); err != nil {
		return err
	}
	if err := r.Show(c); err != nil || c.Bool("json") {
		return err
	}
	fmt.Fprintf(c.App.Writer, "\nRecorded, nothing was written to Slurm: priod web --state %s\n", report.Safe(dir))
	return nil
}

// of takes in what is recorded.
func (to *recording) of(s *Simulated, c *config.Config, jobs []trace.Job) {
	to.origin, to.jobs = cmp.Or(s.Stats.Origin, monday), len(jobs)
	if to.number = ownIDs(jobs); to.number == nil {
		to.note = "the ids of the trace are none of Slurm's: jobs are numbered by their arrival, from 1"
	}
	if c.Path != "" {
		to.config, _ = os.ReadFile(c.Path) // it was read a moment ago
	}
	to.set = []string{"sizing.enabled=" + strconv.FormatBool(c.Sizing.Enabled), "locality.enabled=" + strconv.FormatBool(c.Locality.Enabled)} // see Unprofile
}

// ownIDs are the ids of a trace where each is one of Slurm's; else nil.
func ownIDs(jobs []trace.Job) func(id string, place int) cluster.JobID {
	seen := make(map[cluster.JobID]bool, len(jobs))
	for i := range jobs {
		id, err := slurmplug.ParseJobID(jobs[i].ID)
		if err != nil || seen[id] {
			return nil
		}
		seen[id] = true
	}
	return func(id string, place int) cluster.JobID {
		number, _ := slurmplug.ParseJobID(id)
		return number
	}
}

func jobIDOf(to *recording) func(id string, place int) cluster.JobID {
	if to == nil {
		return nil
	}
	return to.number
}

// side is the recording of a run of a comparison.
func (to *recording) side(run string) *simulate.Recording {
	side := ""
	if run == "slurm" {
		side = store.Without
	}
	to.sides[side] = &simulate.Recording{Dir: to.folder.Dir(side), Origin: to.origin, Number: to.number}
	return to.sides[side]
}

// counted are jobs of which those that were submitted are counted.
func (to *recording) counted(jobs []trace.Job) iter.Seq2[trace.Job, error] {
	return func(yield func(trace.Job, error) bool) {
		to.submitted = 0
		for _, j := range jobs {
			if to.submitted++; !yield(j, nil) {
				return
			}
		}
	}
}

// stopped keeps of a replay that was stopped what can be read, which is both sides or nothing, and says how far it came.
func (to *recording) stopped(c *cli.Context, dir string) error {
	with := to.sides[""]
	if with == nil || with.First.IsZero() {
		to.folder.Discard()
		return fmt.Errorf("stopped before the replay with priod began: nothing is kept of it, and %s is as it was", dir)
	}
	sides := map[string]*store.Replay{}
	for side, x := range to.sides {
		sides[side] = to.replay(c, x, "")
	}
	sides[""].Stopped = to.submitted
	if err := to.folder.Finish(sides, to.config); err != nil {
		to.folder.Discard()
		return err
	}
	return fmt.Errorf("stopped after %d of %d jobs: %s holds the replay until %s; the same command begins it anew", to.submitted, to.jobs, dir, with.Last.Local().Format(time.DateTime))
}

// replay describes a side, with its policy.
func (to *recording) replay(c *cli.Context, x *simulate.Recording, policy string) *store.Replay {
	return &store.Replay{Version: c.App.Version, Policy: policy, Jobs: to.jobs, From: x.First, Until: x.Last, Set: append(c.StringSlice("set"), to.set...)}
}

// finish puts the folder in its place.
func (to *recording) finish(c *cli.Context, r *compared) error {
	sides := map[string]*store.Replay{}
	for side, x := range to.sides {
		run := &r.Runs[len(r.Runs)-1]
		if side == store.Without {
			run = &r.Runs[len(r.Runs)-2]
		}
		if x.First.IsZero() {
			return errors.New("no cycle saw a job")
		}
		sides[side] = to.replay(c, x, run.Policy)
	}
	own, runs := *r, r.Runs[len(r.Runs)-2:]
	own.Runs = []comparedRun{runs[1], runs[0], runs[1]} // what happened is the replay with priod
	v := valueOf(&own)
	v.Made, v.Since, v.Until, v.Replays = sides[""].Until, sides[""].From, sides[""].Until, 1
	if v.Completion.Without > 0 {
		v.Low = 1 - v.Completion.With/v.Completion.Without
		v.High = v.Low
	}
	if v.Jobs > 0 { // else no job has GPUs
		if err := store.SaveValue(to.folder.Dir(""), v); err != nil {
			return err
		}
	}
	return to.folder.Finish(sides, to.config)
}
