package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/slurmplug/wake"
	"slurmprio/tests/lab"
)

// sleepy starts a priod that polls once an hour and hears calls at the address
// that it returns.
func sleepy(t *testing.T, settings string) (*running, wake.Address) {
	t.Helper()
	dir := openDir(t, 0o755)
	address := wake.Address{Path: filepath.Join(dir, "wake")}
	s := newSite(t, fmt.Sprintf("[cycle]\ninterval = \"1h\"\n[wake]\nlisten = [%q]\n%s", address, settings))
	s.fill()
	d := s.daemon()
	d.waitLog("started")
	s.wait("the first cycle", func() bool {
		out, _, _ := s.priod("report", "history", "--json")
		var seen struct{ Cycles []struct{} }
		return json.Unmarshal([]byte(out), &seen) == nil && len(seen.Cycles) > 0
	})
	return d, address
}

// submitTrial submits a TE job as a user, with the call to priod.
func (d *running) submitTrial(user string, address wake.Address) (id string) {
	d.Helper()
	cmd := d.lab.As(user).Command(context.Background(), filepath.Join(bin, "sbatchwrap"), "--parsable", "--output=/dev/null", "--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	cmd.Env = append(cmd.Env, "SBATCHWRAP_WAKE="+address.String())
	out, err := cmd.Output()
	if err != nil {
		d.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (d *running) siteFactor(id string) string {
	d.Helper()
	return strings.TrimSpace(d.slurm("sprio", "--noheader", "--format=%S", "--jobs="+id))
}

// A TE submission has its priority long before the next poll.
func TestSubmissionWakesPriod(t *testing.T) {
	d, address := sleepy(t, "")
	for range 2 {
		begun := time.Now()
		trial := d.submitTrial("", address)
		d.wait("the trial's value", func() bool { v := d.siteFactor(trial); return v != "" && v != "0" })
		t.Logf("%.1f s from the submission to the written priority", time.Since(begun).Seconds())
	}
	d.stop()
	if _, err := os.Stat(address.Path); err == nil {
		t.Error("the socket stays when priod ends")
	}
}

// Whoever floods the socket makes priod poll no more than his share allows, and
// another user's submission still wakes it.
func TestFloodOfCallsIsBounded(t *testing.T) {
	longOnly(t)
	listen := freePort(t)
	d, address := sleepy(t, fmt.Sprintf("polls_per_minute = 4\n[metrics]\nlisten = %q\n", listen))
	m := scraper{d, listen}
	const early = "priod_early_polls_total"
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		sent := 0
		for ; ; sent++ {
			select {
			case <-stop:
				stopped <- sent
				return
			default:
				address.Send()
			}
		}
	}()
	m.waitValue(early, atLeast(2)) // half of 4
	d.sleep(3 * time.Second)       // room for two polls more, were they allowed
	polls := m.value(early)
	close(stop)
	t.Logf("%d datagrams, %.0f early polls", <-stopped, polls)
	if polls != 2 {
		t.Errorf("%.0f early polls of one caller", polls)
	}
	if os.Geteuid() != 0 {
		return // only root can submit as another user
	}
	trial := d.submitTrial(lab.PlainUser, address)
	d.wait("the other user's value", func() bool { v := d.siteFactor(trial); return v != "" && v != "0" })
	d.slurm("scancel", trial)
}
