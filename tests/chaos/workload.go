package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size is how large a run is.
type Size struct {
	Length time.Duration // in which jobs arrive
	Jobs   int
	Pieces int      // of work that a job has, on average; the fastest type takes PieceMS for each
	Types  []string // of the GPUs, the fastest first; node names begin with them
	Users  int
	Every  time.Duration // the run is as many runs of this length, one after another; 0: one
}

// one is the size of each of so many runs that follow each other.
func (s Size) one() (one Size, runs int) {
	if s.Every == 0 {
		return s, 1
	}
	runs = int(s.Length / s.Every)
	one = s
	one.Length, one.Jobs = s.Every, s.Jobs/runs
	return one, runs
}

const (
	// PieceMS is how long a piece of work takes on a fast GPU with CPUs enough.
	PieceMS  = 1000
	perNode  = 4  // GPUs
	nodeCPUs = 16 //
)

// Conduct is what a job does when it is told to leave.
type Conduct string

const (
	Leaves99 Conduct = "99"     // saves, and exits with 99
	Leaves0  Conduct = "0"      // saves, and exits with 0
	Ignores  Conduct = "ignore" // goes on
)

// Job is what one user submits, as data.
type Job struct {
	Name   string // of its files; Slurm knows it by Title
	At     time.Duration
	User   int // number of a user
	Class  string
	Nodes  int
	GPUs   int    // on each node
	Type   string // of GPUs that it insists on
	Pieces int    // of work
	Grace  int    // s
	Conduct
	Signal    string // "": TERM
	Ckpt      int    // pieces from one checkpoint to the next
	Tasks     int    // of an array; 0: none
	Limit     int    // of its tasks that run at a time; 0: none
	Het       bool   // a heterogeneous job of two components
	After     int    // the job that has to end before, by number; -1: none
	Open      string // its number of nodes: 1-3, or "open" without an option; "": Nodes
	Held      bool   // until its user releases it
	NoRequeue bool
	Fails     int    // the piece at which it fails by its own fault; 0: never
	Crashes   int    // the piece at which its first run is killed by a signal of its own; 0: never
	Retry     string // what its tag says of that
	Wants     int    // CPUs on a node below which it is slow
	MS        []int  // that a piece takes on each type
	Title     string
	Comment   string   // the user's own
	Options   []string // of sbatch, further ones
	Tag       []string // options of sbatchwrap beyond type, signal, grace and checkpoints
}

// Evictable reports whether the job agreed to leave, as docs/features/preemption.md has it.
func (j *Job) Evictable() bool { return j.Class == "be" && !j.NoRequeue && !j.Het }

// Steerable reports whether the job left its GPU type open and said how fast it is.
func (j *Job) Steerable() bool {
	return j.Type == "" && slices.ContainsFunc(j.Tag, func(o string) bool { return strings.HasPrefix(o, "--prio-speed") })
}

// Names are the names of its parts: itself, or the tasks of an array.
func (j *Job) Names() (all []string) {
	if j.Tasks == 0 {
		return []string{j.Name}
	}
	for i := range j.Tasks {
		all = append(all, fmt.Sprintf("%s.%d", j.Name, i))
	}
	return all
}

// titles are what users call their jobs, some to upset who reads them.
var titles = []string{
	"train", "eval 7", "ReqNodeList=a100-1 Features=t4", "x\n999\x1f999\x1e", "\x1b[2J|;$(touch /tmp/owned) 'q\" \xff", "prio:type=te&v=1", "JobState=FAILED Reason=BadConstraints", strings.Repeat("long", 30),
}

var comments = []string{"", "", "my own words", "no prio: tag", "a=b&c=d|e;f", "x ReqNodeList=t4-1 Comment=", "\u202eright to left"}

// Workload draws jobs: the same ones for the same seed and size.
func Workload(seed uint64, size Size) (all []Job) {
	size, runs := size.one()
	for k := range runs {
		first := len(all)
		for i, j := range workload(seed+uint64(1000*k), size) {
			j.Name = fmt.Sprintf("c%03d", first+i)
			j.At += time.Duration(k) * size.Length
			if j.After >= 0 {
				j.After += first
			}
			all = append(all, j)
		}
	}
	return all
}

func workload(seed uint64, size Size) []Job {
	r := rand.New(rand.NewPCG(seed, 15))
	all := make([]Job, size.Jobs)
	for i := range all {
		all[i].At = time.Duration(r.Int64N(int64(size.Length)))
		if i < size.Jobs/6 {
			all[i].At /= 10 // a queue soon
		}
	}
	slices.SortFunc(all, func(a, b Job) int { return cmp.Compare(a.At, b.At) })
	for i := range all {
		draw(r, &all[i], i, size)
	}
	if size.Length >= longEnough {
		r = rand.New(rand.NewPCG(seed, 17))
		for i := range all {
			drawCrash(r, &all[i])
		}
		r = rand.New(rand.NewPCG(seed, 18))
		for i := range all {
			drawOpen(r, &all[i])
		}
	}
	return all
}

// longEnough is a run in which jobs that crash come back: two minutes later, says Slurm.
const longEnough = 4 * time.Minute

// drawCrash has some jobs crash once.
func drawCrash(r *rand.Rand, j *Job) {
	crashes, retry := 1+r.IntN(j.Pieces), one(r, "always", "always", "infra", "never", "")
	if r.IntN(8) == 0 && j.Tasks == 0 && !j.Het && j.Fails == 0 && !j.NoRequeue {
		j.Crashes, j.Retry = crashes, retry
	}
}

// drawOpen has some jobs leave their number of nodes open.
func drawOpen(r *rand.Rand, j *Job) {
	open := one(r, "1-3", "1-2", "open")
	if r.IntN(2) == 0 && j.Nodes == 1 && j.GPUs > 1 && j.Tasks == 0 && !j.Het && !slices.Contains(j.Options, "--exclusive") {
		j.Open = open
	}
}

// one of some.
func one[T any](r *rand.Rand, some ...T) T { return some[r.IntN(len(some))] }

func draw(r *rand.Rand, j *Job, i int, size Size) {
	j.After, j.Nodes = -1, 1
	j.User, j.GPUs = r.IntN(size.Users), one(r, 1, 1, 1, 2, 2, 4)
	j.Class = one(r, "te", "be", "be", "be", "be", "")
	j.Title, j.Comment = one(r, titles...), one(r, comments...)
	j.Pieces = 1 + size.Pieces/3 + r.IntN(size.Pieces*4/3)
	switch j.Class {
	case "te":
		j.Pieces = 1 + j.Pieces/4
	case "be":
		j.Conduct, j.Signal = one(r, Leaves99, Leaves99, Leaves99, Leaves99, Ignores, Leaves0), one(r, "B:USR1", "B:USR1", "")
		j.Grace, j.Ckpt = 3+r.IntN(6), one(r, 0, 5)
	}
	if r.IntN(12) == 0 {
		j.Fails = 1 + r.IntN(j.Pieces)
	}
	if r.IntN(15) == 0 {
		j.NoRequeue = true
	}
	drawShape(r, j, i)
	drawSpeed(r, j, size)
	drawRequest(r, j, size)
	longest := j.Pieces * j.MS[len(j.MS)-1] * 3 / 2 / 1000 // s, on the slowest type with too few CPUs
	j.Options = append(j.Options, fmt.Sprintf("--time=%d", 1+(longest+59)/60+r.IntN(2)))
	if j.Class != "" && r.IntN(3) == 0 {
		j.Tag = append(j.Tag, "--prio-steps="+strconv.Itoa(j.Pieces))
	}
}

// drawShape makes some jobs gangs, arrays, heterogeneous, held or wait for another.
func drawShape(r *rand.Rand, j *Job, i int) {
	switch n := r.IntN(20); {
	case n < 2:
		j.Nodes, j.GPUs = 2, one(r, 2, 4)
	case n < 5:
		j.Tasks, j.Limit = 2+r.IntN(5), one(r, 0, 1, 2)
		j.Pieces = 1 + j.Pieces/2
		j.Fails = 0
		j.GPUs = one(r, 1, 2)
	case n < 6:
		j.Het, j.GPUs = true, 1
	case n < 7:
		j.Held = true
	case n < 9 && i > 0:
		j.After = r.IntN(i)
	}
}

// drawSpeed says how long pieces take on each type, and lets some jobs tell priod.
func drawSpeed(r *rand.Rand, j *Job, size Size) {
	j.MS = make([]int, len(size.Types))
	slower := one(r, 1.1, 1.5, 2)
	var speeds []string
	f := 1.0
	for k := range j.MS {
		j.MS[k] = int(PieceMS * f)
		speeds = append(speeds, fmt.Sprintf("%s:%.2f", size.Types[k], 1/f))
		f *= slower
	}
	if r.IntN(3) > 0 {
		j.Tag = append(j.Tag, "--prio-speed="+strings.Join(speeds, ","))
	}
}

// drawRequest gives CPUs, memory, GPU types and constraints.
func drawRequest(r *rand.Rand, j *Job, size Size) {
	switch r.IntN(10) {
	case 0:
		j.Options = append(j.Options, "--cpus-per-gpu=2")
	case 1:
		j.Options = append(j.Options, "--mem-per-gpu=2000")
	case 2:
		j.Options = append(j.Options, "-c", "2", "--mem-per-cpu=800")
	case 3:
		if !j.Het {
			j.Options = append(j.Options, "--exclusive")
		}
	default:
		j.Options = append(j.Options, "-c", one(r, "1", "2", "4"), "--mem="+one(r, "1000", "4000"))
		if r.IntN(2) == 0 && j.Class != "" {
			drawCurves(r, j, size)
		}
	}
	switch r.IntN(10) {
	case 0:
		j.Type = one(r, size.Types...)
	case 1:
		j.Options = append(j.Options, "--constraint="+one(r, size.Types...))
	case 2:
		if j.Nodes == 1 {
			j.Options = append(j.Options, "--constraint="+size.Types[0]+"|"+size.Types[len(size.Types)-1])
		}
	case 3:
		j.Options = append(j.Options, "--prefer="+one(r, size.Types...))
	}
}

// drawCurves lets a job gain from CPUs, and in its words only from memory.
func drawCurves(r *rand.Rand, j *Job, size Size) {
	var cpu, mem []string
	for _, t := range size.Types {
		cpu = append(cpu, t+":1x1-4x1.5")
		mem = append(mem, t+":500x1-4000x1.1")
	}
	j.Wants = 4 * j.GPUs
	j.Tag = append(j.Tag, "--prio-cpu="+strings.Join(cpu, ","))
	if r.IntN(2) == 0 {
		j.Tag = append(j.Tag, "--prio-mem="+strings.Join(mem, ","))
	}
}

// Args are the job's options and script for sbatchwrap. after is the id of the job
// that it waits for, if there is one.
func (j *Job) Args(script, after string, size Size) []string {
	gres := fmt.Sprintf("--gres=gpu:%d", j.GPUs)
	if j.Type != "" {
		gres = fmt.Sprintf("--gres=gpu:%s:%d", j.Type, j.GPUs)
	}
	nodes := fmt.Sprintf("--nodes=%d", j.Nodes)
	if j.Open != "" {
		nodes, gres = "--nodes="+j.Open, strings.Replace(gres, "--gres=gpu:", "--gpus=", 1)
	}
	args := []string{"--parsable", "--output=/dev/null", "--open-mode=append", "--job-name=" + j.Title, nodes, gres}
	args = slices.DeleteFunc(args, func(a string) bool { return a == "--nodes=open" })
	if j.Comment != "" {
		args = append(args, "--comment="+j.Comment)
	}
	args = append(args, j.Options...)
	if j.Class != "" {
		args = append(args, "--prio-type="+j.Class)
	}
	if j.Class == "be" {
		args = append(args, fmt.Sprintf("--prio-grace=0:%02d", j.Grace))
		if j.Signal != "" {
			args = append(args, "--prio-signal="+j.Signal)
		}
		if j.Ckpt > 0 {
			args = append(args, fmt.Sprintf("--prio-ckpt=%ds", max(1, j.Ckpt*PieceMS/1000)))
		}
	}
	args = append(args, j.Tag...)
	if j.Retry != "" {
		args = append(args, "--prio-retry="+j.Retry)
	}
	if j.Tasks > 0 {
		limit := ""
		if j.Limit > 0 {
			limit = fmt.Sprintf("%%%d", j.Limit)
		}
		args = append(args, fmt.Sprintf("--array=0-%d%s", j.Tasks-1, limit))
	}
	if after != "" {
		args = append(args, "--dependency=afterany:"+after)
	}
	if j.Held {
		args = append(args, "--hold")
	}
	if j.NoRequeue {
		args = append(args, "--no-requeue")
	}
	if j.Het {
		args = append(args, ":", "--gres=gpu:1", "-c", "1", "--mem=1000")
	}
	args = append(args, script, j.Name, strconv.Itoa(j.Pieces), cmp.Or(string(j.Conduct), string(Ignores)), strconv.Itoa(j.Ckpt), strconv.Itoa(j.Fails), strconv.Itoa(j.Crashes), strconv.Itoa(j.Wants))
	for k, t := range size.Types {
		args = append(args, fmt.Sprintf("%s=%d", t, j.MS[k]))
	}
	return args
}

// Script is what every job runs: NAME PIECES CONDUCT CKPT FAILS CRASHES WANTS TYPE=MS ...
// It writes NAME.log: each start, piece of work, save and signal, with the time. A
// piece of work that was not saved is done again after a requeue.
const Script = `#!/bin/bash
file=$PWD/$1${SLURM_ARRAY_TASK_ID:+.$SLURM_ARRAY_TASK_ID} pieces=$2 conduct=$3 every=$4 fails=$5 crashes=$6 wants=$7
shift 7
for t in "$@"; do [[ $SLURMD_NODENAME == ${t%%=*}* ]] && ms=${t#*=}; done
((SLURM_CPUS_ON_NODE >= wants)) || ms=$((ms * 3 / 2))
say() { echo "$EPOCHREALTIME $*" >>"$file.log"; }
save() { echo "$done" >"$file.new" && mv "$file.new" "$file.saved" && say saved "$done"; }
told() {
	say signal "$1" "$SLURM_RESTART_COUNT"
	[ "$conduct" = ignore ] && return
	save
	say exit "$conduct"
	exit "$conduct"
}
done=$(cat "$file.saved" 2>/dev/null || echo 0)
trap 'told USR1' USR1
trap 'told TERM' TERM
say start "$done" "${SLURM_RESTART_COUNT:=0}" "$SLURM_JOB_NODELIST"
while ((done < pieces)); do
	sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))" &
	while kill -0 $! 2>/dev/null; do wait $!; done
	done=$((done + 1))
	say piece "$done"
	((done == fails)) && { say failed; exit 3; }
	((done == crashes)) && [ ! -e "$file.crashed" ] && { : >"$file.crashed"; say crashed "$SLURM_RESTART_COUNT"; kill -SEGV $$; }
	((every > 0 && done % every == 0)) && save
done
say complete
save
`
