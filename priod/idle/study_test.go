package idle

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"slurmprio/priod/cluster"
)

// life is a made-up job of a day: when it works and when it does not, minute by minute, and the label.
type life struct {
	job   cluster.Job
	works []bool
	quits int // the minute from which on it never works again; len(works): it works to its end
}

// lifeOf draws one. Working jobs load data at first, evaluate, save and wait for a file system: their pauses have medians of
// minutes and long tails, which differ from program to program.
func lifeOf(r *rand.Rand, id uint32, start time.Time, programs int) life {
	const minutes = 24 * 60
	program := r.IntN(programs)
	own := rand.New(rand.NewPCG(7, uint64(program)))
	load, pause, every := own.ExpFloat64()*8, own.ExpFloat64()*3, 30+own.ExpFloat64()*200
	if program%20 == 0 { // loads for long
		load = 40 + own.Float64()*20
	}
	x := life{job: gpuJob(id, start), works: make([]bool, minutes), quits: minutes}
	x.job.User, x.job.Name = "u"+string(rune('a'+program%26)), "p"+string(rune('A'+program/26))
	at := load * (0.8 + 0.4*r.Float64())
	for at < minutes {
		until := at + every*r.ExpFloat64()
		for k := int(at); k < min(int(until)+1, minutes); k++ {
			x.works[k] = true
		}
		at = until + pause*min(r.ExpFloat64(), 4)
	}
	if r.Float64() < 0.1 { // one in ten hangs, or never begins
		x.quits = 0
		if r.Float64() < 0.7 {
			x.quits = r.IntN(minutes / 2)
		}
		for k := x.quits; k < minutes; k++ {
			x.works[k] = false
		}
	}
	return x
}

// TestStudyOfLabels has jobs with labels live for 1,200 days, in make test-long for 12,000, under a source that samples them once a minute, and
// fails for a while now and then. What is found is cancelled at twice the time. At most one working job in 10,000 job-days
// is, and of the GPU-hours held without work after a job has stopped for good at most 30 % are left.
func TestStudyOfLabels(t *testing.T) {
	days, programs := 60, 200
	if os.Getenv("SLURMPRIO_LONG") == "1" {
		days = 600
	}
	r := rand.New(rand.NewPCG(1, 2))
	m, set := NewMemory(), settings(Cancel)
	const perDay = 20
	wrong, found, stopped, alarms := 0, 0, 0, 0
	without, left := 0.0, 0.0
	id := uint32(0)
	for day := range days {
		start := epoch.Add(time.Duration(day) * 24 * time.Hour)
		lives := make([]life, perDay)
		ended := make([]int, perDay)
		for i := range lives {
			id++
			lives[i] = lifeOf(r, id, start, programs)
			ended[i] = len(lives[i].works)
			if q := lives[i].quits; q < len(lives[i].works) {
				stopped++
				without += float64(len(lives[i].works) - q)
			}
		}
		down := 0 // minutes for which the source still fails
		for minute := range 24 * 60 {
			at := start.Add(time.Duration(minute) * time.Minute)
			if down--; down < 0 && r.Float64() < 0.002 {
				down = r.IntN(40)
			}
			s := cluster.Snapshot{At: at}
			signs := map[cluster.JobID][]cluster.Sign{}
			for i := range lives {
				if minute >= ended[i] {
					continue
				}
				s.Jobs = append(s.Jobs, lives[i].job)
				if down < 0 && r.Float64() > 0.01 {
					signs[lives[i].job.ID] = gpus(lives[i].works[minute])
				}
			}
			m.Observe(&s, signs, set)
			for _, open := range m.open() {
				x := open.spell
				i := int(x.Job.ID-1) % perDay
				j := &lives[i].job
				if set.due(x, j, at) != Cancel || !open.told.Equal(at) {
					continue
				}
				x.Acted, x.Do, ended[i] = at, Cancel, minute
				if found++; minute < lives[i].quits {
					wrong++
				}
			}
		}
		for i := range lives {
			if q := lives[i].quits; q < len(lives[i].works) {
				left += float64(max(ended[i]-q, 0))
			}
		}
		for _, x := range m.ended {
			if x.FalseAlarm() {
				alarms++
			}
		}
		m.ended = nil
	}
	jobDays := float64(days * perDay)
	t.Logf("%.0f job-days of %d programs: %d jobs stopped for good, %d cancelled, %d of these worked; %d false alarms shown; GPU-hours without work: %.0f %% less",
		jobDays, programs, stopped, found, wrong, alarms, 100*(1-left/without))
	if float64(wrong) > max(jobDays/10_000, 1) {
		t.Errorf("%d working jobs were cancelled in %.0f job-days", wrong, jobDays)
	}
	if left > 0.3*without {
		t.Errorf("%.0f %% of the time without work is left", 100*left/without)
	}
}
