package tests

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/store"
	"slurmprio/tests/lab"
)

// evicting turns preemption on with short times.
const evicting = quick + "[te_budget.user]\ngpus = 0\n[preemption]\nenabled = true\nmin_run = \"0s\"\nmax_evictions = 0\nmax_per_hour = 0\nmin_gain = \"0s\"\nurgency = 0.0\ngrace = \"5s\"\nreserve_for = \"20s\"\nretry_after = \"1s\"\n"

// worker is the script of a job that counts to a number of units of work, a few
// a second, and saves after each save-th one and when it is told to. Its conduct
// says what it does about the signal: save, leave (as save, but with status 0), ignore or finish. Each unit is a
// line in its log, so that a test can tell what was done, twice or never. Endless work
// is done once there is a file "enough".
const worker = `#!/bin/bash
state=$1$SLURM_ARRAY_TASK_ID units=$2 conduct=$3
done=0; [ -s "$state" ] && done=$(cat "$state")
save() { echo "$done" > "$state.new" && mv "$state.new" "$state"; }
told() {
	echo "signal restart=${SLURM_RESTART_COUNT:-0} at=$done time=$(date +%s.%N)" >> "$state.log"
	case $conduct in
	save) save; exit 99;;
	leave) save; exit 0;;
	finish) save; echo "complete" >> "$state.log"; exit 0;;
	esac
}
[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] && [ "$units" = endless ] && units=$((done + 3))
[ "$units" = endless ] && units=100000
trap told USR1
echo "start restart=${SLURM_RESTART_COUNT:-0} from=$done" >> "$state.log"
while [ "$done" -lt "$units" ]; do
	sleep 0.2 & wait $!
	done=$((done + 1))
	[ "$units" = 100000 ] && [ -e "$1.enough" ] && units=$done
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
	return evictableOn(t, newSite(t, settings))
}

func evictableOn(t testing.TB, s *site) *evictable {
	t.Helper()
	e := &evictable{site: s}
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

// endless work ends soon after a restart.
const endless = -1

// full fills the nodes of type t4: a job that stays on one, the worker w on the
// other.
func (e *evictable) full(grace int, conduct string, args ...string) (victim string) {
	e.Helper()
	e.blocker("t4:4")
	victim = e.worker("w", "t4:4", endless, grace, conduct, args...)
	e.begun("w")
	return victim
}

// told waits until a worker has its signal.
func (e *evictable) told(name string) {
	e.Helper()
	e.wait("the signal to "+name, func() bool { return strings.Contains(e.log(name), "signal") })
}

// once runs single cycles as soon as Slurm ranks so many jobs.
func (s *site) once(eligible, cycles int) {
	s.Helper()
	s.eligible(eligible)
	s.looked()
	for range cycles {
		s.must("run", "--once")
	}
}

// looked waits until Slurm has said of each pending job why it waits: until then no job leaves for one. An update, such as
// that of its priority, takes the reason away until the next look.
func (s *site) looked() {
	s.Helper()
	s.wait("Slurm's look at each job", func() bool {
		return !strings.Contains(s.slurm("squeue", "--noheader", "--states=PENDING", "--format=%r"), "None")
	})
}

// worker submits a BE job that does units of work, a few a second, on GPUs of a
// type, and has a grace period of some seconds; 0: that of the configuration.
func (e *evictable) worker(name, gres string, units, grace int, conduct string, args ...string) string {
	e.Helper()
	args = append([]string{"--prio-type=be", "--prio-signal=B:USR1", "--open-mode=append", "--gres=gpu:" + gres, "--time=60"}, args...)
	if grace > 0 {
		args = append(args, fmt.Sprintf("--prio-grace=0:%02d", grace))
	}
	todo := "endless"
	if units != endless {
		todo = strconv.Itoa(units)
	}
	return e.submit(append(args, e.state("worker"), e.state(name), todo, conduct)...)
}

// blocker is a job that holds GPUs and did not agree to leave.
func (e *evictable) blocker(gres string, args ...string) string {
	e.Helper()
	id := e.submit(append(args, "--gres=gpu:"+gres, "--time=60", "--wrap", "sleep 600")...)
	e.runs(id)
	return id
}

// trial submits a TE job.
func (e *evictable) trial(gres string, args ...string) string {
	e.Helper()
	args = append([]string{"--prio-type=te", "--gres=gpu:" + gres, "--time=5"}, args...)
	return e.submit(append(args, "--wrap", "sleep 1")...)
}

func (e *evictable) log(name string) string {
	text, _ := os.ReadFile(e.state(name) + ".log") // none yet
	return string(text)
}

func (e *evictable) runs(id string) {
	e.Helper()
	if err := e.lab.WaitJob(e.Context(), id, "RUNNING"); err != nil {
		e.Fatal(err)
	}
}

func (e *evictable) completes(id string) {
	e.Helper()
	if err := e.lab.WaitJob(e.Context(), id, "COMPLETED"); err != nil {
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
	for line := range strings.Lines(e.slurm("squeue", "--noheader", lab.Records(), "--states=PENDING", "--Format=JobID:|,ReqNodes:|")) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) > 1 && f[1] != "" {
			left = append(left, line)
		}
	}
	return strings.Join(left, "")
}

// settled waits until nothing is under way any more.
func (e *evictable) settled() []store.Eviction {
	e.Helper()
	e.wait("the evictions to end", func() bool { // a victim may come back behind others
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

// leftOnce fails unless the worker was told to leave once and has done all of its
// work.
func (e *evictable) leftOnce(name string) {
	e.Helper()
	text := e.log(name)
	if strings.Count(text, "signal ") != 1 || strings.Count(text, "start ") != 2 || strings.Count(text, "complete") != 1 {
		e.Errorf("%s:\n%s", name, text)
	}
	_, saved, _ := strings.Cut(text, " at=")
	saved, _, _ = strings.Cut(saved, " ")
	if _, again, _ := strings.Cut(text, "start restart=1 from="); !strings.HasPrefix(again, saved+"\n") {
		e.Errorf("%s does not go on where it was:\n%s", name, text)
	}
}

// A TE job evicts one checkpointing BE job, which comes back and completes with
// all of its work done; the other BE jobs never hear of it.
func TestEvictionMakesRoom(t *testing.T) {
	e := newEvictable(t, evicting)
	victims := []string{e.worker("w0", "t4:4", endless, 20, "save"), e.worker("w1", "t4:4", endless, 5, "save")}
	e.begun("w0", "w1")
	d := e.daemon()
	d.waitLog("started")
	trial := e.trial("t4:2")
	e.completes(trial)
	told := 0
	for i, id := range victims {
		name := fmt.Sprint("w", i)
		if strings.Contains(e.log(name), "signal") {
			told++
			e.completes(id)
			e.leftOnce(name)
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
	if out := e.must("evictions"); !strings.Contains(out, "done (exited)") || !strings.Contains(out, trial) {
		t.Errorf("evictions says\n%s", out)
	}
	if out := e.must("explain", trial); !strings.Contains(out, "Room") || !strings.Contains(out, "it exited by itself") {
		t.Errorf("explain of the TE job says\n%s", out)
	}
	if out := e.must("explain", x.Victim.String()); !strings.Contains(out, "Evicted") || !strings.Contains(out, "for TE job "+trial) {
		t.Errorf("explain of the victim says\n%s", out)
	}
	d.stop()
	if text := d.log.String(); strings.Contains(text, "[WARN]") || strings.Contains(text, "[ERROR]") {
		t.Errorf("the log warns:\n%s", text)
	}
}

// conduct is what a victim, or an owner, does to an eviction.
type conduct struct {
	name, conduct string
	grace         int
	settings      string
	meanwhile     func(e *evictable, victim, trial string) // once it is told to leave
	how, place    string                                   // place "": either way
	back          bool                                     // the victim runs again
	unheard       bool                                     // it may be ended before it hears its signal
}

var conducts = []conduct{
	{name: "ignores its signal", conduct: "ignore", grace: 2, how: "forced", place: "started", back: true},
	{name: "saves and exits 0", conduct: "leave", grace: 10, how: "exited", place: "started", back: true},
	{name: "finishes where 0 says so", conduct: "finish", settings: strings.Replace(evicting, "grace = \"5s\"", "grace = \"5s\"\nzero_exit = \"done\"", 1), grace: 5, how: "finished", place: "started"},
	{name: "leaves at once", conduct: "save", grace: 10, how: "exited", place: "started", back: true},
	{name: "has no grace", unheard: true, conduct: "ignore", settings: strings.Replace(evicting, "grace = \"5s\"", "grace = \"0s\"", 1), how: "forced", place: "started", back: true},
	{name: "is cancelled", conduct: "ignore", grace: 20, how: "ended", place: "started", meanwhile: func(e *evictable, victim, _ string) {
		e.slurm("scancel", victim)
	}},
	{name: "is requeued by its owner", conduct: "ignore", grace: 20, how: "requeued", place: "started", back: true, meanwhile: func(e *evictable, victim, _ string) {
		e.slurm("scontrol", "requeue", victim)
	}},
	{name: "is held", conduct: "ignore", grace: 3, how: "forced", place: "started", back: true, meanwhile: func(e *evictable, victim, trial string) {
		e.slurm("scontrol", "hold", victim)
		e.completes(trial)
		e.wait("the victim to wait", func() bool {
			return strings.Contains(e.slurm("squeue", "--noheader", "--format=%i %r"), victim+" JobHeld")
		})
		e.slurm("scontrol", "release", victim)
	}},
	{name: "the tag goes", conduct: "ignore", grace: 3, how: "forced", place: "started", back: true, meanwhile: func(e *evictable, victim, _ string) {
		e.slurm("scontrol", "update", "JobId="+victim, "Comment=mine")
	}},
	{name: "the TE job is cancelled", conduct: "ignore", grace: 3, how: "forced", place: "released", back: true, meanwhile: func(e *evictable, _, trial string) {
		e.slurm("scancel", trial)
	}},
	{name: "the TE job is held", conduct: "ignore", grace: 3, how: "forced", place: "released", back: true, meanwhile: func(e *evictable, _, trial string) {
		e.slurm("scontrol", "hold", trial)
	}},
	{name: "the TE job is none any more", conduct: "ignore", grace: 4, how: "forced", place: "released", back: true, meanwhile: func(e *evictable, _, trial string) {
		e.slurm("scontrol", "update", "JobId="+trial, "Comment=prio:type=be&v=1")
	}},
	{name: "its node goes down", conduct: "ignore", grace: 30, how: "requeued", back: true, meanwhile: func(e *evictable, victim, _ string) {
		node := strings.TrimSpace(e.slurm("squeue", "--noheader", "--jobs="+victim, "--format=%N"))
		e.slurm("scontrol", "update", "NodeName="+node, "State=DOWN", "Reason=test")
		e.wait("the victim to be off the node", func() bool {
			return !strings.Contains(e.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i"), victim)
		})
		_, _ = e.lab.Run(e.Context(), "scontrol", "update", "NodeName="+node, "State=RESUME") // Slurm may have done it
	}},
	{name: "slurmctld is down", conduct: "save", grace: 50, how: "exited", place: "started", back: true, meanwhile: func(e *evictable, _, _ string) {
		if err := e.lab.Stop(e.Context(), "slurmctld"); err != nil {
			e.Fatal(err)
		}
		e.sleep(4 * time.Second) // the victim's end comes to nobody
		if err := e.lab.StartDaemon(e.Context(), "slurmctld"); err != nil {
			e.Fatal(err)
		}
	}},
	{name: "priod is paused", conduct: "ignore", grace: 3, how: "forced", place: "started", back: true, meanwhile: func(e *evictable, _, _ string) {
		e.must("pause", "--why", "a test")
	}},
}

// What victims and owners do: the journal tells it, the job that left because of
// the signal comes back, and the others do not.
func TestEvictionConducts(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{})
	for _, c := range conducts[:rounds(1, len(conducts))] {
		t.Run(c.name, func(t *testing.T) {
			e := evictableOn(t, newSiteOn(t, l, cmp.Or(c.settings, evicting)))
			victim := e.full(c.grace, c.conduct)
			d := e.daemon()
			trial := e.trial("t4:2")
			if !c.unheard {
				e.told("w")
			}
			if c.meanwhile != nil {
				c.meanwhile(e, victim, trial)
			}
			if c.place != "released" {
				e.completes(trial)
			}
			if c.back {
				e.wait("the victim to run again", func() bool { return strings.Count(e.log("w"), "start ") == 2 })
				e.completes(victim)
			}
			all := e.settled()
			if len(all) != 1 || all[0].How != c.how || c.place != "" && all[0].ClaimState != c.place {
				t.Errorf("%+v", all)
			}
			if n := strings.Count(e.log("w"), "start "); n != 2 && c.back || n != 1 && !c.back {
				t.Errorf("it started %d times:\n%s", n, e.log("w"))
			}
			if n := strings.Count(e.log("w"), "signal "); n != 1 && !(c.unheard && n == 0) {
				t.Errorf("the signals:\n%s", e.log("w"))
			}
			d.stop()
		})
	}
}

// Two victims leave one after the other: what the first one leaves is kept for the
// TE job, though a short job would fit in between.
func TestEvictionInParts(t *testing.T) {
	longOnly(t)
	e := newEvictable(t, evicting)
	e.blocker("t4:4")
	early := e.worker("early", "t4:2", endless, 8, "save")
	late := e.worker("late", "t4:2", endless, 8, "ignore")
	e.begun("early", "late")
	d := e.daemon()
	short := e.submit("--gres=gpu:t4:1", "--time=1", "--wrap", "sleep 5")
	trial := e.trial("t4:4")
	e.told("early")
	e.completes(trial)
	for _, id := range []string{short, early, late} {
		e.completes(id)
	}
	began := func(id string) string {
		return e.slurm("squeue", "--noheader", "--states=all", "--jobs="+id, "--Format=StartTime:|") // sorts as text
	}
	if began(short) < began(trial) {
		t.Error("the short job took the first part of the place")
	}
	all := e.settled()
	if len(all) != 2 || all[0].ClaimState != "started" || all[1].ClaimState != "started" {
		t.Errorf("%+v", all)
	}
	if left := e.slurm("scontrol", "show", "reservation"); strings.Contains(left, "priod_") {
		t.Errorf("a reservation is left:\n%s", left)
	}
	d.stop()
}

// Of an array one task leaves, and the tasks of a TE array get room one by one.
func TestEvictionOfArrayTasks(t *testing.T) {
	longOnly(t)
	e := newEvictable(t, evicting)
	e.blocker("t4:4")
	array := e.worker("w", "t4:2", endless, 5, "save", "--array=1-2")
	e.begun("w1", "w2")
	d := e.daemon()
	trial := e.trial("t4:2", "--array=7-8")
	for _, id := range []string{trial + "_7", trial + "_8"} {
		e.completes(id)
	}
	all := e.settled()
	if len(all) == 0 || len(all) > 2 {
		t.Fatalf("%+v", all)
	}
	signals := 0
	for _, name := range []string{"w1", "w2"} {
		signals += strings.Count(e.log(name), "signal ")
	}
	if signals != len(all) {
		t.Errorf("%d signals for %d evictions", signals, len(all))
	}
	for _, x := range all {
		if x.Victim.Task < 0 || x.For.Task < 0 || x.How != "exited" || x.ClaimState != "started" {
			t.Errorf("%+v", x)
		}
	}
	if text := e.log("w1") + e.log("w2"); strings.Count(text, "start ") != 2+len(all) {
		t.Errorf("the starts:\n%s", text)
	}
	e.slurm("scancel", array)
	d.stop()
}

// The victim's node is drained in its grace (one that goes down comes back by
// itself in the lab): the claim is given up, and the TE job
// may start anywhere again.
func TestEvictionOnALostNode(t *testing.T) {
	longOnly(t)
	e := newEvictable(t, evicting)
	victim := e.full(8, "ignore")
	node := strings.TrimSpace(e.slurm("squeue", "--noheader", "--jobs="+victim, "--format=%N"))
	d := e.daemon()
	trial := e.trial("t4:2")
	e.told("w")
	e.slurm("scontrol", "update", "NodeName="+node, "State=DRAIN", "Reason=test")
	resumed := false
	t.Cleanup(func() {
		if !resumed {
			e.slurm("scontrol", "update", "NodeName="+node, "State=RESUME")
		}
	})
	d.waitLog("node " + node + " cannot be used")
	e.wait("the TE job to be free again", func() bool { return e.pinned() == "" })
	e.slurm("scontrol", "update", "NodeName="+node, "State=RESUME")
	resumed = true
	e.completes(trial)
	e.completes(victim)
	if all := e.settled(); len(all) != 1 || all[0].How != "forced" || all[0].ClaimState != "released" {
		t.Errorf("%+v", all)
	}
	d.stop()
}

// reset takes back what holds a place; the eviction ends cleanly afterwards.
func TestResetTakesBackThePlace(t *testing.T) {
	longOnly(t)
	for _, c := range []struct {
		name string
		args []string
	}{{"job", nil}, {"task", []string{"--array=0-1"}}} {
		t.Run(c.name, func(t *testing.T) {
			e := newEvictable(t, evicting)
			victim := e.full(8, "ignore")
			trial := e.trial("t4:2", c.args...)
			e.eligible(1)
			e.wait("the place", func() bool {
				e.must("run", "--once")
				return e.pinned() != ""
			})
			e.must("reset")
			if left := e.pinned(); left != "" {
				t.Errorf("reset leaves\n%s", left)
			}
			d := e.daemon()
			e.completes(trial)
			e.completes(victim)
			if all := e.settled(); len(all) != 1 || all[0].How != "forced" {
				t.Errorf("%+v", all)
			}
			d.stop()
		})
	}
}

// Who names other nodes than an eviction did keeps them over a reset.
func TestResetLeavesOthersPlaces(t *testing.T) {
	longOnly(t)
	e := newEvictable(t, evicting)
	e.full(8, "ignore")
	trial := e.trial("t4:2")
	e.eligible(1)
	e.wait("the place", func() bool {
		e.must("run", "--once")
		return e.pinned() != ""
	})
	own := "t4-1"
	if strings.Contains(e.pinned(), own) {
		own = "t4-2"
	}
	e.slurm("scontrol", "update", "JobId="+trial, "ReqNodeList="+own)
	e.must("reset")
	if left := e.pinned(); !strings.Contains(left, own) {
		t.Errorf("reset takes %s from its user, and leaves %q", own, left)
	}
}

// AdminLevel=Operator is enough for everything that an eviction takes.
func TestEvictionByAnOperator(t *testing.T) {
	longOnly(t)
	if os.Geteuid() != 0 {
		t.Skip("acting as another user needs root; make test-long as root runs this")
	}
	e := newEvictable(t, evicting)
	e.become(lab.OperatorUser, evicting)
	e.blocker("t4:4")
	one := e.worker("one", "t4:2", endless, 5, "save")
	two := e.worker("two", "t4:2", endless, 5, "ignore")
	e.begun("one", "two")
	d := e.daemon()
	trial := e.trial("t4:4")
	for _, id := range []string{trial, one, two} {
		e.completes(id)
	}
	d.stop()
	if text := d.log.String(); strings.Contains(text, "priority alone") || strings.Contains(text, "[WARN]") {
		t.Errorf("the log says\n%s", text)
	}
}

// Jobs that did not agree, cannot be requeued or run in a reservation are left
// alone, and explain --victims says so.
func TestEvictionLeavesAlone(t *testing.T) {
	e := newEvictable(t, evicting)
	stays := e.full(5, "save", "--no-requeue")
	trial := e.trial("t4:2")
	e.once(1, 2)
	if text := e.log("w"); strings.Contains(text, "signal") || len(e.journal()) > 0 {
		t.Errorf("a job that cannot be requeued: %+v\n%s", e.journal(), text)
	}
	e.looked()
	if out := e.must("explain", "--victims", trial); !strings.Contains(out, "cannot be requeued") || !strings.Contains(out, "did not agree") {
		t.Errorf("explain --victims says\n%s", out)
	}
	e.slurm("scancel", stays)
	e.completes(trial)
}

// A job that asked for an expedited requeue (26.05) is left alone, and explain --victims
// says so: Slurm would hold it when it leaves by itself, and start it again before the
// TE job when it is requeued.
func TestExpeditedJobsAreNotEvicted(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{
		ExtraConf: []string{"SlurmctldParameters=enable_expedited_requeue"},
		Nodes:     []lab.NodeSpec{{Count: 1, GPUType: "t4", GPUs: 4}},
	})
	if help, err := l.Run(t.Context(), "sbatch", "--help"); err != nil || !strings.Contains(help, "--requeue[=") {
		t.Skip("this Slurm has no expedited requeue")
	}
	e := evictableOn(t, newSiteOn(t, l, evicting))
	stays := e.worker("w", "t4:4", endless, 5, "save", "--requeue=expedite")
	e.begun("w")
	trial := e.trial("t4:2")
	e.once(1, 2)
	if text := e.log("w"); strings.Contains(text, "signal") || len(e.journal()) > 0 {
		t.Errorf("%+v\n%s", e.journal(), text)
	}
	e.looked()
	if out := e.must("explain", "--victims", trial); !strings.Contains(out, "--requeue=expedite") {
		t.Errorf("explain --victims says\n%s", out)
	}
	e.slurm("scancel", stays)
	e.completes(trial)
}

// Two TE jobs want one hole: one has it made, the other waits; and when everybody
// says TE, nobody leaves.
func TestTwoTrialsOneHole(t *testing.T) {
	longOnly(t)
	e := newEvictable(t, evicting)
	e.blocker("t4:4")
	victim := e.worker("w", "t4:4", 60, 5, "save")
	e.begun("w")
	d := e.daemon()
	one, two := e.trial("t4:3"), e.trial("t4:3")
	e.completes(one)
	e.completes(two)
	e.completes(victim)
	all := e.settled()
	if len(all) != 1 && len(all) != 2 { // the second may evict the victim's second run
		t.Errorf("%+v", all)
	}
	if strings.Count(e.log("w"), "signal ") != len(all) {
		t.Errorf("%d evictions:\n%s", len(all), e.log("w"))
	}
	d.stop()
	e.clear()
	e.blocker("t4:4", "--prio-type=te")
	e.blocker("t4:4", "--prio-type=te")
	e.trial("t4:2")
	e.once(1, 2)
	if again := e.journal(); len(again) != len(all) {
		t.Errorf("a TE job was evicted: %+v", again)
	}
}

// Where Slurm itself lets a requeued job start again within a second (requeue_delay,
// 25.11), the victims of a place that takes some time to make wait for it all the same.
func TestEvictionWithoutSlurmsDelay(t *testing.T) {
	longOnly(t)
	t.Parallel()
	e := evictableOn(t, newSiteOn(t, lab.ForTest(t, lab.Options{
		ExtraConf: []string{"SchedulerParameters=batch_sched_delay=0,sched_interval=5,sched_min_interval=100000,bf_interval=1,requeue_delay=0"},
		Nodes:     []lab.NodeSpec{{Count: 1, GPUType: "t4", GPUs: 4}},
	}), evicting))
	early, late := e.worker("early", "t4:2", endless, 20, "save"), e.worker("late", "t4:2", endless, 10, "ignore")
	e.begun("early", "late")
	d := e.daemon()
	trial := e.trial("t4:4")
	e.told("early")
	e.completes(trial)
	start := func(id string) string {
		return strings.TrimSpace(e.slurm("squeue", "--noheader", "--states=all", "--jobs="+id, "--format=%S"))
	}
	for _, id := range []string{early, late} {
		e.completes(id)
		if start(id) < start(trial) {
			t.Errorf("%s runs again at %s, before the TE job at %s", id, start(id), start(trial))
		}
	}
	for _, name := range []string{"early", "late"} {
		if text := e.log(name); strings.Count(text, "signal ") != 1 || strings.Count(text, "start ") != 2 {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	e.settled()
	d.stop()
}
