package virtual

import (
	"math"

	"slurmprio/priod/placement"
)

// Under SRTF and LAS the jobs that run are, at every event, those that a walk
// through all jobs in order would start, skipping what does not fit. settle
// restores that from the last such set, in a few steps for each job that
// starts or stops.
//
// Two facts carry it. What is free only falls along the walk, so a class whose
// first job does not fit at its place has none that does. And as time passes
// running jobs only move forward past waiting ones (SRTF), or none moves
// (LAS, until a job falls into the next queue, which is an event).
//
// Inside a LAS queue a running job is not preempted for a waiting one: first
// those that run, in the order in which they started; then those that wait,
// those that were preempted last in front (Tiresias, NSDI'19, and its published
// simulator).
func (e *engine) settle() {
	e.preempted -= manyJobs
	suspended := int64(0)
	for {
		first, _ := e.queue.pick(func(s *slot) *job {
			if head := s.class.head; e.running[0].before(e.passed(head))+int64(head.GPUs) <= int64(e.gpus) {
				return head
			}
			return nil
		})
		if first == nil {
			break
		}
		// All before first stays as it is; the first behind it that does not
		// fit any more has to go, and so on.
		e.resume(first)
		for over := e.running[0].over(int64(e.gpus)); over != nil; over = e.running[0].over(int64(e.gpus)) {
			e.suspend(over, e.preempted+suspended)
			suspended++
		}
	}
	for _, j := range e.demotions {
		if j.state == waiting {
			e.outcomes[j.index].Preemptions++
		}
	}
	e.demotions = e.demotions[:0]
}

// manyJobs is more than can be preempted at once.
const manyJobs = 1 << 24

// passed is the key by which a waiting job stands among the running ones.
// Under SRTF these stand by their end, which time does not change; under LAS
// all of a queue stand before the waiting ones.
func (e *engine) passed(j *job) key {
	k := j.key
	if e.opt.Order == SRTF {
		k.rank += e.now
		return k
	}
	k.seq = math.MaxInt64
	return k
}

func (e *engine) resume(j *job) {
	e.queue.remove(j)
	if e.opt.Order == SRTF {
		j.key = e.passed(j)
	} else {
		e.turns++
		j.key.seq = e.turns
	}
	j.start = e.now
	j.state = running
	j.epoch++
	e.hold(j, []placement.Share{{Amount: placement.Amount{GPUs: int32(j.GPUs)}}})
	j.planned = e.now + j.todo/j.speed
	e.running[0].insert(j)
	e.agenda.push(event{at: j.planned, kind: ended, job: j, epoch: j.epoch})
	if e.opt.Order == LAS && j.level < len(e.opt.LASQueues) {
		falls := e.now + (e.opt.LASQueues[j.level]-j.attained)/float64(j.GPUs)
		if falls < j.planned {
			e.agenda.push(event{at: falls, kind: demoted, job: j, epoch: j.epoch})
		}
	}
}

// pause takes a job's GPUs and books what it did.
func (e *engine) pause(j *job) {
	ran := e.now - j.start
	e.outcomes[j.index].Ran += ran
	j.todo = max(j.todo-ran*j.speed, math.SmallestNonzeroFloat64)
	j.attained += ran * float64(j.GPUs)
	e.running[0].remove(j)
	e.drop(j)
	j.epoch++
}

// suspend preempts a job; under LAS it waits in front of its queue.
func (e *engine) suspend(j *job, front int64) {
	e.pause(j)
	e.outcomes[j.index].Preemptions++
	if e.opt.Order == LAS {
		j.turn = front
	}
	e.wait(j)
}

// demote moves a job behind all others of the next LAS queue.
func (e *engine) demote(j *job) {
	e.pause(j)
	j.level++
	j.attained = max(j.attained, e.opt.LASQueues[j.level-1])
	e.turns++
	j.turn = e.turns
	e.wait(j)
	e.demotions = append(e.demotions, j)
	e.moved = true
}
