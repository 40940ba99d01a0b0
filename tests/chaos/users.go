package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Turn is one thing that a user does to a job of his.
type Turn struct {
	At    time.Duration
	Job   int    // by number
	Do    string // cancel, hold, release, requeue, or the key that scontrol update sets
	Value string
}

// Turns draws what users do meanwhile to jobs: the same for the same seed. Whoever
// holds a job releases it later.
func Turns(seed uint64, jobs []Job, size Size) (all []Turn) {
	size, runs := size.one()
	for k := range runs {
		first := k * size.Jobs
		for _, t := range turns(seed+uint64(1000*k), jobs[first:first+size.Jobs], size) {
			t.Job += first
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b Turn) int { return cmp.Compare(a.At, b.At) })
	return all
}

func turns(seed uint64, jobs []Job, size Size) (all []Turn) {
	r := rand.New(rand.NewPCG(seed, 16))
	for i, j := range jobs {
		at := j.At + time.Duration(r.Int64N(int64(size.Length)/4))
		if j.Held {
			all = append(all, Turn{at, i, "release", ""})
			continue
		}
		if r.IntN(3) > 0 {
			continue
		}
		t := Turn{At: at, Job: i}
		switch t.Do = one(r, "cancel", "hold", "requeue", "Features", "TimeLimit", "Nice", "Comment", "QOS", "Partition"); t.Do {
		case "hold":
			all = append(all, Turn{t.At + size.Length/10, i, "release", ""})
		case "requeue":
			if j.NoRequeue || j.Het || j.Tasks > 0 {
				continue
			}
			all = append(all, Turn{t.At + 4*time.Second, i, "StartTime", "now"}) // Slurm would wait for two minutes
		case "Features":
			if j.Type != "" {
				continue // what he asks for might not exist
			}
			t.Value = one(r, append(size.Types, "")...)
		case "TimeLimit":
			t.Value = one(r, "1", "2", "3")
		case "Nice":
			t.Value = strconv.Itoa(r.IntN(50))
		case "Comment":
			t.Value = one(r, comments[2:]...) // whatever stood there, the tag too, is gone
		case "QOS":
			t.Value = one(r, "te", "be", "normal")
		case "Partition":
			t.Value = one(r, "gpu", "interactive")
		}
		all = append(all, t)
	}
	return all
}

// Command is what the user types for the turn. A part of a heterogeneous job is
// changed by its id and offset.
func (t *Turn) Command(id string) []string {
	switch t.Do {
	case "cancel":
		return []string{"scancel", id}
	case "hold", "release", "requeue":
		return []string{"scontrol", t.Do, id}
	}
	return []string{"scontrol", "update", "JobId=" + id, t.Do + "=" + t.Value}
}

// Done is a turn as it went.
type Done struct {
	Turn
	From, Until time.Time // of the command
	Failed      string    // what Slurm said; then nothing is set
}

// last is the value that its user last gave to a key of a job by then, and whether he did.
func last(done []Done, job int, key string, by time.Time) (value string, set bool) {
	for _, d := range done {
		if d.Job == job && d.Do == key && d.Failed == "" && !d.From.After(by) {
			value, set = d.Value, true
		}
	}
	return value, set
}

// did reports whether the user of a job did something to it by then.
func did(done []Done, job int, by time.Time, what ...string) bool {
	return slices.ContainsFunc(done, func(d Done) bool {
		return d.Job == job && !d.From.After(by) && slices.Contains(what, d.Do)
	})
}
