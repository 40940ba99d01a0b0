package daemon

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug/wake"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

func never(time.Time) bool  { return false }
func always(time.Time) bool { return true }

func TestACallIsAnsweredByTheJobItMeant(t *testing.T) {
	c := calls{perMinute: 20}
	c.polled(at(0), false, never)
	if !c.next().IsZero() {
		t.Error("a poll is due though nobody called")
	}
	c.add("ann", at(1))
	if got := c.next(); !got.Equal(at(1).Add(submitTime)) {
		t.Errorf("due at %v", got)
	}
	c.polled(at(1.2), false, always) // too soon for her job
	if c.next().IsZero() {
		t.Error("a poll before the submission answers the call")
	}
	c.add("ann", at(1.4))
	c.polled(at(1.5), true, always)
	if got := c.next(); !got.Equal(at(1.4).Add(submitTime)) {
		t.Errorf("her second submission is looked for at %v", got)
	}
	c.polled(at(1.9), true, never)
	if got := c.next(); !got.Equal(at(1.9).Add(lookAgain)) {
		t.Errorf("after a look in vain the next is at %v", got)
	}
	c.polled(at(3.9), true, never)
	if got := c.next(); !got.Equal(at(3.9).Add(2 * lookAgain)) {
		t.Errorf("after a second one at %v", got)
	}
	c.polled(at(7.9), true, func(since time.Time) bool { return since.Equal(at(1.4)) })
	if got := c.next(); !got.IsZero() {
		t.Errorf("found, and still due at %v", got)
	}
	c.add("eve", at(10))
	for i := range maxLooks {
		if c.next().IsZero() {
			t.Fatalf("%d looks", i)
		}
		c.polled(c.next(), true, never)
	}
	if got := c.next(); !got.IsZero() {
		t.Errorf("a call without a job is still due at %v", got)
	}
}

// Whatever is called and whenever: so many early polls in any minute, of one
// caller half as many, and nobody's call is forgotten while another floods.
func TestCallsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls{perMinute: rapid.IntRange(1, 25).Draw(t, "per minute")}
		interval := rapid.Float64Range(2, 120).Draw(t, "interval")
		now, last := 0.0, 0.0
		var all []time.Time
		own := map[string][]time.Time{}
		check := func(polls []time.Time, most int, whose string) {
			if n := len(polls); n > most && polls[n-1].Sub(polls[n-1-most]) < time.Minute {
				t.Fatalf("%s: more than %d early polls in a minute: %v", whose, most, polls[n-1-most:])
			}
		}
		for range rapid.IntRange(1, 300).Draw(t, "events") {
			now += rapid.Float64Range(0, 5).Draw(t, "pause")
			for {
				regular := at(last + interval)
				due, early := c.next(), true
				if soonest := at(last + 2); due.Before(soonest) && !due.IsZero() {
					due = soonest
				}
				if due.IsZero() || !due.Before(regular) {
					due, early = regular, false
				}
				if due.After(at(now)) {
					break
				}
				seen := rapid.Bool().Draw(t, "seen")
				c.polled(due, early, func(time.Time) bool { return seen })
				last = due.Sub(noon).Seconds()
				if early {
					all = append(all, due)
					check(all, c.perMinute, "all")
					by := c.early[len(c.early)-1].by
					if len(by) == 0 {
						t.Fatalf("an early poll that nobody called for at %v", due)
					}
					for _, caller := range by {
						own[caller] = append(own[caller], due)
						check(own[caller], max(1, c.perMinute/2), caller)
					}
				}
			}
			c.add(rapid.SampledFrom([]string{"ann", "bob", "eve", "eve", "eve", "eve"}).Draw(t, "caller"), at(now))
		}
		for i := 0; len(c.waiting) > 0; i++ {
			if i > 4*maxLooks {
				t.Fatalf("calls are never done with: %+v", c.waiting)
			}
			now += interval
			c.polled(at(now), false, never)
		}
	})
}

// A caller who keeps priod busy leaves a poll for the others.
func TestAFloodLeavesRoomForOthers(t *testing.T) {
	c := calls{perMinute: 20}
	polls := 0
	for now := 0.0; now < 300; now += 0.01 {
		c.add("eve", at(now))
		if due := c.next(); !due.After(at(now)) {
			c.polled(at(now), true, never)
			polls++
		}
	}
	if polls != 50 { // half of 20 a minute
		t.Errorf("%d early polls in 5 minutes", polls)
	}
	c.add("ann", at(300))
	if got := c.next(); !got.Equal(at(300).Add(submitTime)) {
		t.Errorf("ann's job is looked for at %v", got)
	}
}

func TestManyCallersTakeLittleMemory(t *testing.T) {
	var c calls
	for i := range 10 * maxCallers {
		c.add(strconv.Itoa(i), at(0))
	}
	if len(c.waiting) != maxCallers {
		t.Errorf("%d callers", len(c.waiting))
	}
}

func TestFound(t *testing.T) {
	job := func(change func(*cluster.Job)) cluster.Job {
		j := trialJob()
		j.Submit = at(10)
		change(&j)
		return j
	}
	for name, c := range map[string]struct {
		job  cluster.Job
		why  string
		want bool
	}{
		"pending":            {job(func(j *cluster.Job) {}), "te", true},
		"not eligible yet":   {job(func(j *cluster.Job) {}), "not-eligible", false},
		"over budget":        {job(func(j *cluster.Job) {}), "over-budget", true},
		"running already":    {job(func(j *cluster.Job) { j.State = cluster.Running }), "", true},
		"of an earlier call": {job(func(j *cluster.Job) { j.Submit = at(9) }), "te", false},
		"not a TE job":       {job(func(j *cluster.Job) { j.Tag.Type = "be" }), "be", false},
	} {
		r := &cycle.Result{Snapshot: cluster.Snapshot{Jobs: []cluster.Job{c.job}}}
		r.Plan.Decisions = []plan.Decision{{Job: c.job.ID, Why: c.why}}
		if got := found(r, at(10.7)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func listening(t *testing.T, addresses ...wake.Address) (*wakeListener, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	l := &wakeListener{}
	l.listen(addresses, 20, hclog.New(&hclog.LoggerOptions{Output: log}))
	t.Cleanup(l.close)
	return l, log
}

func (l *wakeListener) callers() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.calls.waiting {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// The kernel says who called; the network's callers are one.
func TestCallersAreKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wake")
	free, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	udp := wake.Address{UDP: netip.MustParseAddrPort(free.LocalAddr().String())}
	free.Close()
	local := wake.Address{Path: path}
	l, log := listening(t, local, udp)
	for _, a := range []wake.Address{local, udp} {
		a.Send()
		<-l.called
	}
	if got, want := l.callers(), []string{fmt.Sprint(os.Geteuid()), "network"}; !slices.Equal(got, want) {
		t.Errorf("callers are %v, want %v\n%s", got, want, log)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", info, err)
	}
	// What a caller writes is not read.
	c, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write(bytes.Repeat([]byte("1000\x00"), 1000))
	<-l.called
	if got := l.callers(); len(got) != 2 {
		t.Errorf("callers are %v", got)
	}
	l.listen([]wake.Address{udp}, 20, hclog.NewNullLogger())
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket stays when its address is dropped")
	}
	l.close()
	if c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(udp.UDP)); err != nil {
		t.Errorf("the port stays taken: %v", err)
	} else {
		c.Close()
	}
}

// A place where priod cannot listen costs a line, not the work.
func TestWakeSocketUnusable(t *testing.T) {
	dir := t.TempDir()
	plain, taken, stale := dir+"/file", dir+"/taken", dir+"/stale"
	if err := os.WriteFile(plain, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: taken, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	killed, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: stale, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	killed.Close() // without removing its file
	l, log := listening(t, wake.Address{Path: plain}, wake.Address{Path: taken}, wake.Address{Path: stale}, wake.Address{Path: dir + "/no/folder"})
	if n := strings.Count(log.String(), "do not trigger a poll"); n != 3 {
		t.Errorf("%d warnings\n%s", n, log)
	}
	if text, err := os.ReadFile(plain); err != nil || string(text) != "mine" {
		t.Errorf("a file that is no socket was touched: %q, %v", text, err)
	}
	wake.Address{Path: stale}.Send()
	<-l.called
}

// The daemon looks at once, though its interval is long, and then waits again.
func TestACallBringsTheNextCycle(t *testing.T) {
	f := &fake{}
	d, log := newDaemon(t, f)
	path := filepath.Join(t.TempDir(), "wake")
	d.Config.Wake.Listen = []string{"unix:" + path}
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wakes.listen(d.Config.WakeAddresses(), 20, d.Log)
	defer d.wakes.close()
	wake.Address{Path: path}.Send()
	if on, early := d.wait(t.Context(), time.Hour, 0, nil); !on || !early {
		t.Fatalf("on %v, early %v\n%s", on, early, log)
	}
	d.wakes.polled(time.Now(), true, &cycle.Result{Snapshot: cluster.Snapshot{Jobs: []cluster.Job{{Tag: trialJob().Tag, Submit: time.Now()}}}})
	wake.Address{Path: path}.Send()
	<-d.wakes.called
	// A stand-by, or a poll that took long, is not hurried.
	if on, early := d.wait(t.Context(), 10*time.Millisecond, 10*time.Millisecond, nil); !on || early {
		t.Errorf("on %v, early %v", on, early)
	}
}
