package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/store"
)

// evicting turns preemption on with short times.
const evicting = quick + "[te_budget.user]\ngpus = 0\n[preemption]\nenabled = true\nmin_run = \"0s\"\nmin_gain = \"0s\"\nurgency = 0.0\ngrace = \"5s\"\nhold = \"20s\"\nretry = \"1s\"\n"

// worker is the script of a job that counts to a number of units of work, a few
// a second, and saves after each save-th one and when it is told to. Its conduct
// says what it does about the signal: save, ignore or finish. Each unit is a
// line in its log, so that a test can tell what was done, twice or never.
const worker = `#!/bin/bash
state=$1 units=$2 conduct=$3
done=0; [ -s "$state" ] && done=$(cat "$state")
save() { echo "$done" > "$state.new" && mv "$state.new" "$state"; }
told() {
	echo "signal restart=${SLURM_RESTART_COUNT:-0} at=$done" >> "$state.log"
	case $conduct in
	save) save; exit 99;;
	finish) save; echo "complete" >> "$state.log"; exit 0;;
	esac
}
trap told USR1
echo "start restart=${SLURM_RESTART_COUNT:-0} from=$done" >> "$state.log"
while [ "$done" -lt "$units" ]; do
	sleep 0.2 & wait $!
	done=$((done + 1))
done
save
echo "complete" >> "$state.log"
`

// evictable is a lab's queue in which every GPU is held by a worker.
type evictable struct {
	*site
	work string
}

func newEvictable(t testing.TB, settings string) *evictable {
	t.Helper()
	e := &evictable{site: newSite(t, settings)}
	e.work = filepath.Join(e.lab.Dir, "work", strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.MkdirAll(e.work, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.work, "worker"), []byte(worker), 0o755); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *evictable) state(name string) string { return filepath.Join(e.work, name) }

// worker submits a BE job that takes the GPUs of one node of a type.
func (e *evictable) worker(name, gpuType string, gpus, units int, conduct string, args ...string) string {
	e.Helper()
	args = append([]string{
		"--prio-type=be", "--prio-grace=5", "--prio-signal=B:USR1", "--requeue", "--open-mode=append", fmt.Sprintf("--gres=gpu:%s:%d", gpuType, gpus), "--time=60",
	}, args...)
	return e.submit(append(args, e.state("worker"), e.state(name), strconv.Itoa(units), conduct)...)
}

// trial submits a TE job.
func (e *evictable) trial(gpuType string, gpus int, args ...string) string {
	e.Helper()
	args = append([]string{"--prio-type=te", fmt.Sprintf("--gres=gpu:%s:%d", gpuType, gpus), "--time=5"}, args...)
	return e.submit(append(args, "--wrap", "sleep 3")...)
}

func (e *evictable) log(name string) string {
	text, _ := os.ReadFile(e.state(name) + ".log") // none yet
	return string(text)
}

func (e *evictable) runs(id string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	if err := e.lab.WaitJob(ctx, id, "RUNNING"); err != nil {
		e.Fatal(err)
	}
}

func (e *evictable) completes(id string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := e.lab.WaitJob(ctx, id, "COMPLETED"); err != nil {
		e.Fatal(err)
	}
}

func (e *evictable) begun(names ...string) {
	e.Helper()
	for _, name := range names {
		e.wait(name+" to run", func() bool { return strings.Contains(e.log(name), "start") })
	}
}

// journal is what the store says of evictions, the first one first.
func (e *evictable) journal() (all []store.Eviction) {
	e.Helper()
	r, err := store.OpenReader(context.Background(), filepath.Join(e.dir, "state"))
	if err != nil {
		e.Fatal(err)
	}
	defer r.Close()
	all, err = r.Evictions(context.Background(), 1000)
	if err != nil {
		e.Fatal(err)
	}
	for i, k := 0, len(all)-1; i < k; i, k = i+1, k-1 {
		all[i], all[k] = all[k], all[i]
	}
	return all
}

// pinned lists the pending jobs that ask for nodes: places that are held.
func (e *evictable) pinned() string {
	e.Helper()
	var left []string
	for line := range strings.Lines(e.slurm("squeue", "--noheader", "--states=PENDING", "--Format=JobID:|,ReqNodes:|")) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) > 1 && f[1] != "" {
			left = append(left, line)
		}
	}
	return strings.Join(left, "")
}

// settled waits until nothing is under way any more.
func (e *evictable) settled() []store.Eviction {
	e.Helper()
	e.wait("the evictions to end", func() bool {
		all := e.journal()
		for _, x := range all {
			if x.Ended.IsZero() || x.ClaimEnded.IsZero() {
				return false
			}
		}
		return len(all) > 0
	})
	if left := e.pinned(); left != "" {
		e.Errorf("places are still held:\n%s", left)
	}
	return e.journal()
}

// once fails unless the worker was told to leave once and has done all of its work.
func (e *evictable) once(name string) {
	e.Helper()
	text := e.log(name)
	if strings.Count(text, "signal ") != 1 || strings.Count(text, "start ") != 2 || strings.Count(text, "complete") != 1 {
		e.Errorf("%s:\n%s", name, text)
	}
}

// A TE job evicts one checkpointing BE job, which comes back and completes with
// all of its work done; the other BE jobs never hear of it.
func TestEvictionMakesRoom(t *testing.T) {
	e := newEvictable(t, evicting)
	var victims []string
	for i := range 3 {
		victims = append(victims, e.worker(fmt.Sprint("a", i), "a100", 4, 60, "save"))
	}
	e.begun("a0", "a1", "a2")
	d := e.daemon()
	d.waitLog("started")
	trial := e.trial("a100", 2)
	e.runs(trial)
	e.completes(trial)
	for _, id := range victims {
		e.completes(id)
	}
	told := 0
	for i := range victims {
		name := fmt.Sprint("a", i)
		if strings.Contains(e.log(name), "signal") {
			told++
			e.once(name)
		} else if strings.Count(e.log(name), "start ") != 1 {
			t.Errorf("%s:\n%s", name, e.log(name))
		}
	}
	all := e.settled()
	if told != 1 || len(all) != 1 {
		t.Fatalf("%d were told to leave: %+v", told, all)
	}
	x := all[0]
	if x.State != "done" || x.How != "exited" || x.ExitCode != 99 || x.ClaimState != "started" || x.For.String() != trial || x.Paid == nil {
		t.Errorf("%+v", x)
	}
	t.Logf("told %s, left after %.1f s, the TE job started %s after that", x.Signalled.Sub(x.Recorded), *x.TookS, x.ClaimEnded.Sub(x.Left))
	d.stop()
	if text := d.log.String(); strings.Contains(text, "[WARN]") || strings.Contains(text, "[ERROR]") {
		t.Errorf("the log warns:\n%s", text)
	}
}
