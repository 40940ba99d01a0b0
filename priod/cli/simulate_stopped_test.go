package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slurmprio/priod/store"
)

// long is a trace of so many jobs.
func long(t *testing.T, jobs int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("job_id,submit_s,gpus,duration_s,limit_s,type,user,account\n")
	for i := range jobs {
		fmt.Fprintf(&text, "%d,%d,%d,%d,7200,%s,u%d,a\n", i+1, 200*i, 1+i%4, 600+i%3000, []string{"te", "be", "be"}[i%3], i%9)
	}
	path := filepath.Join(t.TempDir(), "long.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A replay that is stopped can be read as far as it came, on both sides, and the same command takes its place.
func TestReplayIsStopped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "month")
	var out, errs bytes.Buffer
	ended := make(chan int)
	go func() {
		ended <- Main("v", []string{"priod", "--config", os.DevNull, "simulate", "--trace", long(t, 1500), "--nodes", "2:a100:8", "--state", dir}, &out, &errs)
	}()
	for { // until the side with priod has committed; the one without is whole then
		if info, err := os.Stat(filepath.Join(dir+".unfinished", "priod.db-wal")); err == nil && info.Size() > 1<<20 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status := <-ended; status == exitDone || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), "stopped after ") {
		t.Fatal(status, errs.String())
	}
	r, err := store.ReadReplay(dir)
	if err != nil || r == nil || r.Stopped == 0 || r.Stopped >= r.Jobs {
		t.Fatal(r, err)
	}
	for _, args := range [][]string{{"queue"}, {"evictions"}, {"report", "waits", "--since", "30d"}} {
		ran(t, append(args, "--state", dir)...)
	}
}
