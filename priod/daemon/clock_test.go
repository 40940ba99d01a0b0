package daemon

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/order"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// The clock goes a year ahead and comes back: accounting is asked for a span
// that exists, and a run that it dates in the future does not count.
func TestClockStepsUnderWay(t *testing.T) {
	offset := time.Duration(0)
	f := &fake{jobs: []cluster.Job{trialJob()}}
	d, log := newDaemon(t, f)
	d.Now = func() time.Time { return time.Now().Add(offset) }
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	cycle := func() {
		t.Helper()
		r, _, err := d.step(t.Context())
		d.report(&r, err)
		if err != nil {
			t.Fatal(err)
		}
	}
	cycle()
	for _, offset = range []time.Duration{8760 * time.Hour, 0, -5 * time.Hour, 0} {
		now := d.Now()
		f.past = []cluster.PastStay{{Tag: jobtag.Read("prio:type=te&v=1"), Stay: cluster.Stay{
			Job: slurmplug.Plain(7), Start: now.Add(-time.Hour), End: now.Add(8760 * time.Hour), Closed: true, GPUs: 400, User: "ann",
		}}}
		f.since = time.Time{}
		cycle()
		if back := now.Sub(f.since); back < cluster.UsePeriod-time.Minute || back > cluster.UsePeriod {
			t.Errorf("by %v: accounting is read from %v before now", offset, back)
		}
		byUser, _, _ := d.history.TEUse(now, func(string, string) time.Duration { return 0 })
		if use := byUser["ann"]; use.GPUSeconds != 0 {
			t.Errorf("by %v: %+v", offset, use)
		}
		f.since = time.Time{}
		if cycle(); !f.since.IsZero() {
			t.Errorf("by %v: accounting is read each cycle", offset)
		}
	}
	if n := strings.Count(log.String(), "the system clock was set"); n != 4 || testutil.ToFloat64(d.metrics.steps) != 4 {
		t.Errorf("%d lines\n%s", n, log)
	}
}

// Nothing is deleted by its age until the clock has been steady for an hour.
func TestClockMustBeSteadyToPrune(t *testing.T) {
	offset := time.Duration(0)
	c := clock{now: func() time.Time { return time.Now().Add(offset) }}
	c.read()
	if c.isSteady() {
		t.Error("steady from the start")
	}
	long := func() { c.steady = c.steady.Add(-2 * steadyFor) }
	if long(); !c.isSteady() {
		t.Error("not steady after hours")
	}
	offset = 30 * time.Second
	if _, step := c.read(); step != 0 || !c.isSteady() {
		t.Errorf("a slewed clock counts as set by %v", step)
	}
	offset += 8760 * time.Hour
	if _, step := c.read(); step.Round(time.Hour) != 8760*time.Hour || c.isSteady() {
		t.Errorf("a year: %v", step)
	}
	long()
	offset = 0
	if _, step := c.read(); step.Round(time.Hour) != -8760*time.Hour || c.isSteady() {
		t.Errorf("back again: %v", step)
	}

	f := &fake{}
	d, _ := newDaemon(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	d.Reload = func() (*config.Config, error) { return nil, errors.New("not now") }
	hup, done := make(chan os.Signal), make(chan error)
	go func() { done <- d.Run(ctx, hup) }()
	hup <- syscall.SIGHUP // taken after the first cycle
	cancel()
	if err := <-done; err != nil || f.pruned != 0 {
		t.Errorf("%v, pruned %d times right after the start", err, f.pruned)
	}
}

// A configuration file that is gone does not mean the defaults.
func TestReloadWithoutFile(t *testing.T) {
	d, log := newDaemon(t, &fake{})
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	bare := *d.Config
	bare.Path = ""
	d.Reload = func() (*config.Config, error) { return &bare, nil }
	if d.reload(); d.Config == &bare || !strings.Contains(log.String(), "/dev/null is gone") {
		t.Errorf("%s", log)
	}
}

// What was counted against a rival by a clock that was ahead is forgotten, not
// kept until it is that late.
func TestRivalAcrossAClockStep(t *testing.T) {
	now := time.Now()
	seen := func(value int64, replaced bool) []order.PeerValue {
		var all []order.PeerValue
		for id := range uint32(2) {
			all = append(all, order.PeerValue{Job: slurmplug.Plain(id + 1), Replaced: replaced, Written: cluster.Written{Value: value}})
		}
		return all
	}
	r := rival{}
	r.cycle(seen(1, false), now.AddDate(1, 0, 0))
	r.cycle(seen(2, true), now.AddDate(1, 0, 0))
	if r.cycle(seen(3, true), now); r.found {
		t.Error("two accidents a year apart count as one rival")
	}
	if r.cycle(seen(4, true), now.Add(time.Minute)); !r.found {
		t.Error("a rival is not found any more")
	}
}
