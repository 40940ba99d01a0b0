package tests

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"slurmprio/slurmplug/wake"
)

// A priod that Go's race detector watches has everything on, and everything that
// runs beside its cycles at work: lessons, the endpoint, calls, reloads, another
// priod that asks whose the cluster is, priod's own verbs. The detector ends it at
// the first race, and that fails the test: see running.
func TestRacesWithEverythingOn(t *testing.T) {
	length := 20 * time.Second
	switch {
	case !watchesRaces():
		t.Skip("make test-race runs this, and make test a part of it")
	case long():
		length = 5 * time.Minute
	}
	if info, err := buildinfo.ReadFile(filepath.Join(bin, "priod")); err != nil || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Fatalf("SLURMPRIO_RACE=1 and a priod that was built without -race: %v", err)
	}
	s := newSite(t, "")
	call := wake.Address{Path: filepath.Join(s.lab.Dir, "races-wake")}
	settings := together + fmt.Sprintf("[ranking]\norder = \"owed\"\n[speeds]\ninterval = \"1s\"\n[log]\nlevel = \"debug\"\n[metrics]\nlisten = \"unix:%s\"\n[wake]\nlisten = [%q]\npolls_per_minute = 60\n",
		filepath.Join(s.dir, "metrics"), call)
	s.configure(settings)
	e := evictableOn(t, s)
	d := e.daemon()
	d.waitLog("started")
	m := scraper{d, "unix:" + filepath.Join(s.dir, "metrics")}
	m.waitValue("priod_cycles_total{result=ok}", atLeast(1))
	r := rand.New(rand.NewPCG(1, 14))
	begun := time.Now()
	for i := 0; time.Since(begun) < length; i++ {
		args := []string{"-c", []string{"1", "2", "8", "12"}[r.IntN(4)], "--mem=2000", "--prio-cpu=a100:1x1-8x6,v100:1x1-3x1.2,t4:1x1-3x1.2", "--prio-mem=a100:500x1-4000x1.5",
			"--prio-speed=" + []string{"a100:4,v100:1,t4:1", "a100:1,v100:1,t4:1"}[r.IntN(2)]}
		gpus := fmt.Sprint(1 + r.IntN(4))
		if r.IntN(4) == 0 {
			e.trial(gpus, args...)
			call.Send()
		} else {
			e.worker(fmt.Sprint("w", i), gpus, 10+r.IntN(90), 5, []string{"save", "ignore"}[r.IntN(2)], append(args, "--prio-steps=100000")...)
		}
		for _, path := range []string{"/metrics", "/health"} {
			if answer, err := m.get(path); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}
		switch i % 8 {
		case 2:
			e.must("queue")
		case 4:
			if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		case 6:
			if _, errs, status := e.beside(settings).priod("run", "--once"); status != 1 || !strings.Contains(errs, "another priod is active") {
				t.Errorf("a second priod: exit status %d, %s", status, errs)
			}
		}
		e.sleep(time.Duration(r.IntN(600)) * time.Millisecond)
	}
	text := d.log.String()
	t.Logf("%d writes, %d evictions, %d reloads, %d lessons", strings.Count(text, "wrote:"), len(e.journal()), strings.Count(text, "configuration reloaded"), strings.Count(text, "learned speeds"))
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
