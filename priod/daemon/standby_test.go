package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/evict"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

func controllers(states ...bool) []slurmplug.Controller {
	names := []string{"ctl1", "ctl2", "ctl3"}
	all := make([]slurmplug.Controller, len(states))
	for i, up := range states {
		all[i] = slurmplug.Controller{Host: names[i], Up: up}
	}
	return all
}

func TestActiveHost(t *testing.T) {
	const here = ""
	for _, c := range []struct {
		all   []slurmplug.Controller
		names []string
		want  string
	}{
		{controllers(true, true), []string{"ctl1"}, here},
		{controllers(true, true), []string{"ctl2"}, "stand-by: the active slurmctld is on ctl1"},
		{controllers(false, true), []string{"ctl1"}, "stand-by: the active slurmctld is on ctl2"},
		{controllers(false, true), []string{"ctl2.site.org", "ctl2"}, here},
		{controllers(false, true, true), []string{"ctl3"}, "stand-by: the active slurmctld is on ctl2"},
		{controllers(false, false), []string{"ctl1"}, "no slurmctld answers"},
		{controllers(true, true), []string{"head"}, "is none of the controllers (ctl1, ctl2)"},
		{controllers(true), []string{"CTL1"}, "is none of the controllers"},
		{[]slurmplug.Controller{{Host: "ctl1,ctl2", Up: true}}, []string{"ctl1"}, "other software"},
	} {
		err := standBy(c.all, c.names)
		if err == nil && c.want == here {
			continue
		}
		if err == nil || c.want == here || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v on %v: %v, want %q", c.all, c.names, err, c.want)
		}
	}
}

func following(t *testing.T, f *fake) *Daemon {
	t.Helper()
	d, _ := newDaemon(t, f)
	d.Config.Cycle.FollowController, d.Config.Cycle.ControllerHost = true, "ctl2"
	return d
}

// queue adds a trial to the cluster, so that a cycle that acts has to write.
func (f *fake) queue() {
	j := trialJob()
	j.ID = slurmplug.Plain(uint32(len(f.jobs) + 1))
	j.User = fmt.Sprint("user", len(f.jobs)) // with a budget of its own
	f.jobs = append(f.jobs, j)
}

// Nothing is read or written before the second look that finds this host acting,
// nor after the controller has moved; a stand-by is healthy.
func TestStandsByAndTakesOver(t *testing.T) {
	const elsewhere = StandBy("the active slurmctld is on ctl1")
	first, second := controllers(true, true), controllers(false, true)
	f := &fake{}
	d := following(t, f)
	began := time.Time{}
	for i, c := range []struct {
		all     []slurmplug.Controller
		away    error
		ping    error
		standby StandBy
		trouble string
		acts    bool
	}{
		{all: first, standby: elsewhere},
		{all: second, away: errors.New("in stand-by mode"), standby: notInControl},
		{all: second, standby: takingOver},
		{all: first, standby: elsewhere}, // it came back at once
		{all: second, standby: takingOver},
		{all: second, acts: true},
		{all: second, acts: true},
		{ping: errors.New("timed out"), trouble: "slurm-silent"},
		{all: second, trouble: "slurm-silent"}, // another one may have acted meanwhile: two looks again
		{all: second, acts: true},
		{ping: errors.New("timed out"), trouble: "slurm-silent"},
		{all: first, standby: elsewhere},
	} {
		f.queue()
		f.controllers, f.away, f.pingErr = c.all, c.away, c.ping
		reads, writes := f.reads, len(f.applied)
		turn(t, d)
		if d.last.trouble == "" {
			d.health.cycle(0, time.Minute, nil)
		}
		state := d.health.state()
		if !strings.Contains(d.last.trouble, c.trouble) || c.trouble == "" && d.last.trouble != "" || !state.Healthy || state.StandBy != string(c.standby) {
			t.Errorf("%d: stand-by %q, trouble %q, health %+v", i, state.StandBy, d.last.trouble, state)
		}
		if acting := !d.availability.since.IsZero(); acting && c.standby == elsewhere || !acting && c.acts {
			t.Errorf("%d: it says to act since %s", i, d.availability.since)
		}
		if c.acts && began.IsZero() {
			began = d.availability.since
		}
		if c.acts && d.availability.since != began {
			t.Errorf("%d: a ping that timed out moves since when it acts", i)
		}
		if c.standby != "" && !reflect.DeepEqual(*d.state.Rounds, evict.Rounds{}) {
			t.Errorf("%d: a round that ended while the other priod acted would count: %+v", i, *d.state.Rounds)
		}
		if read, wrote := f.reads > reads, len(f.applied) > writes; read != c.acts || wrote != c.acts {
			t.Errorf("%d: reads %v, writes %v", i, read, wrote)
		}
		want := "priod_standby{} 0"
		if c.standby != "" {
			want = "priod_standby{} 1"
		}
		has(t, d, want)
	}
	if _, err := following(t, f).Once(t.Context()); !errors.As(err, new(StandBy)) {
		t.Errorf("run --once on the other host: %v", err)
	}
}

// A store that fails in each cycle that acts is one trouble, and unhealthy: the
// second looks between are no success. Cut off from its state folder, a priod
// that stands by is in trouble too, before it has to take over.
func TestStandByHidesNoTrouble(t *testing.T) {
	f := &fake{controllers: controllers(false, true), plannedErr: errors.New("disk full")}
	f.queue()
	d := following(t, f)
	for range 6 {
		turn(t, d)
	}
	if d.last.failed != 5 || !strings.Contains(d.last.trouble, "disk full") || len(f.applied) != 0 {
		t.Errorf("%d failed cycles, trouble %q, %d writes", d.last.failed, d.last.trouble, len(f.applied))
	}
	has(t, d, "priod_cycles_total{result=failed} 5")
	f.plannedErr, f.holdErr, f.controllers = nil, errors.New("the state folder is gone"), controllers(true, true)
	turn(t, d)
	if !strings.Contains(d.last.trouble, "is gone") {
		t.Errorf("trouble %q", d.last.trouble)
	}
}

// moving is a cluster whose controllers change at a time.
type moving struct {
	*fake
	at            time.Time
	before, after []slurmplug.Controller // before: nil while scontrol ping hangs
}

func (m moving) Controllers(context.Context) ([]slurmplug.Controller, error) {
	if time.Now().After(m.at) {
		return m.after, nil
	}
	if m.before == nil {
		return nil, errors.New("scontrol ping: timed out")
	}
	return m.before, nil
}

// However long no controller answered, the second cycle after one does acts.
func TestNoBackOffWhileNoControllerAnswers(t *testing.T) {
	noBackOff(t, controllers(false, false))
}

// Nor does a scontrol ping that hangs while a primary comes back hold up what follows.
func TestNoBackOffWhilePingHangs(t *testing.T) { noBackOff(t, nil) }

func noBackOff(t *testing.T, before []slurmplug.Controller) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.queue()
		d := following(t, f)
		interval := time.Duration(d.Config.Cycle.Interval)
		until := 100*interval + interval/2
		slurm := moving{f, time.Now().Add(until), before, controllers(false, true)}
		d.Connect = func(*config.Config) Slurm { return slurm }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx, nil) }()
		time.Sleep(until)
		synctest.Wait()
		has(t, d, "priod_cycles_total{result=failed} 101")
		time.Sleep(2 * interval)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil || len(f.applied) != 1 {
			t.Errorf("%v, %d writes after two cycles", err, len(f.applied))
		}
	})
}

// While it stands by a priod deletes by age too, so it watches the clock.
func TestStandByWatchesTheClock(t *testing.T) {
	f := &fake{controllers: controllers(true, true)}
	d := following(t, f)
	offset := time.Duration(0)
	d.Now = func() time.Time { return time.Now().Add(offset) }
	turn(t, d)
	if d.clock.isSteady() {
		t.Error("steady from the start")
	}
	offset = 8760 * time.Hour
	turn(t, d)
	has(t, d, "priod_clock_steps_total{} 1")
}

// hanging is a cluster whose writes wait for ever, as scontrol does while no
// controller acts.
type hanging struct{ moving }

func (h hanging) Apply(ctx context.Context, actions []plan.Action) []plan.Outcome {
	<-ctx.Done()
	out := make([]plan.Outcome, len(actions))
	for i, a := range actions {
		out[i] = plan.Outcome{Action: a, Status: slurmplug.Unknown, Message: context.Cause(ctx).Error()}
	}
	return out
}

func TestWriteUnderWayEndsWhenTheControllerMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		d, slurm := following(t, f), hanging{moving{f, time.Now().Add(3 * watchEvery / 2), controllers(false, true), controllers(true, true)}}
		actions := []plan.Action{{Job: slurmplug.Plain(1)}}
		out := follower{slurm, d}.Apply(t.Context(), actions)
		if out[0].Status != slurmplug.Unknown || !strings.Contains(out[0].Message, "is on ctl1") {
			t.Errorf("%+v", out)
		}
		out = follower{slurm, d}.Apply(t.Context(), actions)
		if out[0].Status != slurmplug.Postponed || !strings.Contains(out[0].Message, "is on ctl1") {
			t.Errorf("%+v", out)
		}
	})
}

func strangers(replaced bool, value int64, ids ...uint32) (out []order.PeerValue) {
	for _, id := range ids {
		out = append(out, order.PeerValue{Job: slurmplug.Plain(id), Written: cluster.Written{Value: value}, Replaced: replaced})
	}
	return out
}

func TestRival(t *testing.T) {
	at := time.Now()
	for name, c := range map[string]struct {
		cycles [][]order.PeerValue
		every  time.Duration
		found  bool
	}{
		"values that stay are seen once":  {[][]order.PeerValue{strangers(false, 5, 1), strangers(true, 5, 1, 2, 3), strangers(true, 5, 1, 2, 3)}, time.Second, false},
		"again and again":                 {[][]order.PeerValue{nil, strangers(true, 5, 1, 2), strangers(true, 5, 1, 2, 3)}, time.Second, true},
		"the same jobs, other values":     {[][]order.PeerValue{nil, strangers(true, 5, 1, 2), strangers(true, 6, 1, 2)}, time.Second, true},
		"what was there is no attack":     {[][]order.PeerValue{strangers(true, 5, 1, 2, 3, 4), strangers(true, 5, 1, 2, 3, 4)}, time.Second, false},
		"jobs it never wrote are no loss": {[][]order.PeerValue{nil, strangers(false, 5, 1, 2), strangers(false, 5, 1, 2, 3, 4)}, time.Second, false},
		"once in an hour is an operator":  {[][]order.PeerValue{nil, strangers(true, 5, 1, 2), strangers(true, 5, 1, 2, 3)}, time.Hour, false},
	} {
		var r rival
		for i, s := range c.cycles {
			r.cycle(s, at.Add(time.Duration(i)*c.every))
		}
		if r.found != c.found {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// The priod that came second pauses itself and is unhealthy, also after a
// restart, until somebody resumes it; the first one goes on.
func TestRivalThatCameSecondGivesWay(t *testing.T) {
	for _, second := range []bool{true, false} {
		f := &fake{}
		d, log := newDaemon(t, f)
		turn(t, d)
		if second {
			d.peers.rival.reset()
			d.rivals(strangers(false, 5, 9), time.Now())
		}
		d.rivals(strangers(true, 5, 1, 2), time.Now())
		d.rivals(strangers(true, 5, 1, 2, 3), time.Now())
		if store.ByDaemon(f.hold) != second || strings.Count(log.String(), "another priod writes") != 1 {
			t.Errorf("second=%v: hold %q, log\n%s", second, f.hold, log)
		}
		has(t, d, "priod_rival{} 1")
		again, _ := newDaemon(t, f)
		turn(t, again)
		if state := again.health.state(); second && (state.Healthy || !strings.Contains(state.Reason, "another priod")) {
			t.Errorf("after a restart: %+v", state)
		}
		if f.hold = ""; second {
			turn(t, again)
			has(t, again, "priod_rival{} 0")
		}
	}
}

// Where an operator paused this one, another priod is his own doing: his mark stays.
func TestPausedPriodSeesNoRival(t *testing.T) {
	f := &fake{hold: "paused by ann"}
	d, _ := newDaemon(t, f)
	turn(t, d)
	for i := range uint32(3) {
		d.rivals(strangers(true, 5, 3*i, 3*i+1, 3*i+2), time.Now())
	}
	if f.hold != "paused by ann" {
		t.Errorf("hold %q", f.hold)
	}
	has(t, d, "priod_rival{} 0")
}

// sharingFolder is a daemon that shares a folder with another host's.
func sharingFolder(t *testing.T, f *fake) (*Daemon, *bytes.Buffer) {
	t.Helper()
	d, _ := newDaemon(t, f)
	log := &bytes.Buffer{}
	d.Log = hclog.New(&hclog.LoggerOptions{Output: log})
	d.Config.Cycle.FollowController, d.Config.Cycle.ControllerHost, d.Config.State.Shared = true, "ctl2", t.TempDir()
	return d, log
}

// Both hosts take their own slurmctld for the active one, and the other priod takes the folder
// whenever this one did: it leaves it to that one for longer and longer, is not healthy, and
// acts at once when Slurm has made up its mind.
func TestTwoPriodsThatBothAct(t *testing.T) {
	f := &fake{controllers: controllers(false, true), plannedErr: store.ErrTakenOver}
	d, log := sharingFolder(t, f)
	var tried []int // turns in which it acted
	for n := range 300 {
		reads := f.reads
		if turn(t, d); f.reads > reads {
			tried = append(tried, n)
		}
		if d.availability.standby == contested && d.health.state().Healthy {
			t.Fatalf("turn %d: it leaves the folder to the other one, and is healthy", n)
		}
	}
	if want := []int{1, 3, 7, 13, 23, 41, 75, 141, 207, 273}; !slices.Equal(tried, want) {
		t.Errorf("it acts in the turns %v, want %v", tried, want)
	}
	if n := strings.Count(log.String(), "check the network between them"); n > len(tried) {
		t.Errorf("%d lines about it", n)
	}
	for range 2 { // one look in between, as when a host hung
		f.controllers, f.plannedErr = controllers(true, true), nil
		turn(t, d)
		f.controllers = controllers(false, true)
		f.queue()
		writes := len(f.applied)
		turn(t, d)
		turn(t, d)
		if len(f.applied) == writes {
			t.Error("it does not act in the second cycle after Slurm's own take-over")
		}
		f.plannedErr = store.ErrTakenOver
		turn(t, d)
	}
}

// While the other host's slurmctld acts, and nobody's priod writes to the folder here, this
// host says that it may not be the same folder.
func TestStandByMissesTheOtherPriod(t *testing.T) {
	f := &fake{controllers: controllers(true, true)}
	d, log := sharingFolder(t, f)
	for _, c := range []struct {
		owner   string
		healthy bool
	}{{"", false}, {"ctl1.site.org", true}, {"ctl2", false}, {"ctl1", true}} {
		f.owner = c.owner
		for range patientLooks {
			turn(t, d)
			d.health.cycle(0, time.Minute, nil)
		}
		if state := d.health.state(); state.Healthy != c.healthy || !c.healthy && !strings.Contains(state.Reason, "is priod running on ctl1") {
			t.Errorf("the owner is %q: %+v", c.owner, state)
		}
	}
	if n := strings.Count(log.String(), "this host could not take over"); n != 2 {
		t.Errorf("%d lines:\n%s", n, log)
	}
}
