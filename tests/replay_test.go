package tests

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// docs/first-day.md, "Walk through your own month", on a Slurm that knows priod only by name: no daemon, no state folder.
func TestReplayOfALab(t *testing.T) {
	s := newSite(t, "")
	done := s.submit("--gres=gpu:1", "--time=5", "--wrap", "sleep 3")
	s.wait("accounting to know a job that is done, and no more of this second", func() bool { // a replay ends with the last whole second
		f := strings.Fields(s.slurm("sacct", "--noheader", "-X", "--jobs="+done, "--format=State,End%30"))
		if len(f) != 2 || f[0] != "COMPLETED" {
			return false
		}
		end, err := time.ParseInLocation("2006-01-02T15:04:05", f[1], time.Local)
		return err == nil && time.Since(end) > 2*time.Second
	})
	before := s.slurm("squeue", "--all", "--noheader")
	priod := func(args ...string) *exec.Cmd {
		c := s.lab.Command(t.Context(), filepath.Join(bin, "priod"), append([]string{"--config", os.DevNull}, args...)...)
		c.Dir = s.dir
		return c
	}
	for _, line := range []string{
		"simulate --from-slurm --since 30d --set profile=balanced --state month", "queue --state month --at 23:59", "queue --state month",
		"explain --state month " + done, "evictions --state month", "report waits --state month --since 30d",
	} {
		out, err := priod(strings.Fields(line)...).CombinedOutput()
		if line == "queue --state month --at 23:59" { // after its end
			if !strings.Contains(string(out), "nothing is known of") {
				t.Errorf("%s: %s", line, out)
			}
		} else if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if after := s.slurm("squeue", "--all", "--noheader"); after != before {
		t.Errorf("the queue was\n%sand is\n%s", before, after)
	}
	socket := filepath.Join(s.dir, "web.sock")
	c := priod("web", "--state", "month", "--listen", "unix:"+socket)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Process.Signal(os.Interrupt)
		c.Wait()
	}()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	for _, path := range []string{"/", "/without/queue", "/job?id=" + done} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
		answer, err := client.Get("http://priod" + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		if answer.Body.Close(); answer.StatusCode != http.StatusOK || !strings.Contains(string(text), "Nothing of it was written to Slurm") {
			t.Errorf("%s: %s\n%s", path, answer.Status, text)
		}
	}
}
