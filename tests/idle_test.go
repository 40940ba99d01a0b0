package tests

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/idle"
)

// idling is a site with a Prometheus whose exporter makes GPUs up: one is at work while its job keeps touching a file.
type idling struct {
	*site
	gpus string // folder: job-ID stands there while a job runs, gpu-ID is touched while its GPU works
}

// newIdling starts the exporter, Debian's Prometheus and, with what is done about jobs without work for 20 s, priod.
func newIdling(t *testing.T, onIdle string) *idling {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("no prometheus here: make deps")
	}
	x := &idling{gpus: t.TempDir()}
	if err := os.Chmod(x.gpus, 0o777); err != nil {
		t.Fatal(err)
	}
	exporter := httptest.NewServer(http.HandlerFunc(x.export))
	t.Cleanup(exporter.Close)
	x.site = newOwnSite(t, fmt.Sprintf("%s[usage]\nprometheus = %q\non_idle = [%s]\nidle_after = \"20s\"\n", quick, startPrometheus(t, strings.TrimPrefix(exporter.URL, "http://")), onIdle))
	return x
}

// export shows the made-up GPUs as dcgm-exporter does.
func (x *idling) export(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "# TYPE DCGM_FI_DEV_GPU_UTIL gauge")
	entries, _ := os.ReadDir(x.gpus)
	for _, e := range entries {
		id, is := strings.CutPrefix(e.Name(), "job-")
		if !is {
			continue
		}
		use := 0
		if st, err := os.Stat(filepath.Join(x.gpus, "gpu-"+id)); err == nil && time.Since(st.ModTime()) < 4*time.Second {
			use = 80
		}
		fmt.Fprintf(w, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-%s\",Hostname=\"lab\",hpc_job=%q} %d\n", id, id, use)
	}
}

// startPrometheus has one read an exporter each second, and returns its address.
func startPrometheus(t *testing.T, exporter string) string {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	config := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs: [{job_name: dcgm, static_configs: [{targets: [%q]}]}]\n", exporter)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", said.String())
		}
	})
	return "http://" + address
}

// Jobs by what they do: a line of shell that calls work, which keeps the GPU at work for so many seconds.
var idleScripts = map[string]string{
	"works":  "work 600",
	"sleeps": "sleep 600",
	"spins":  "renice 19 $$ >/dev/null; while :; do :; done",
	"hangs":  "work 8; sleep 600",
	"loads":  "sleep 21; work 600",
	"learns": "sleep 28; work 600", // for longer than later loads, so that those are seen in time on a busy machine, too
}

func (x *idling) submitAs(what, name string) string {
	x.Helper()
	script := fmt.Sprintf("cd %[1]s; touch job-$SLURM_JOB_ID; trap 'rm -f job-$SLURM_JOB_ID' EXIT\nwork() { for i in $(seq $1); do touch gpu-$SLURM_JOB_ID; sleep 1; done; }\n%[2]s", x.gpus, idleScripts[what])
	return x.submit("--prio-type=be", "--job-name="+name, "--gres=gpu:1", "--time=30", "--output=/dev/null", "--wrap", script)
}

// spells are what explain shows of a job's times without work.
func (x *idling) spells(id string) []idle.Spell {
	x.Helper()
	var v struct {
		Idle []idle.Spell `json:"idle"`
	}
	if out, _, status := x.priod("explain", "--json", id); status != 0 {
		x.Logf("explain %s: %s", id, out)
		return nil
	}
	x.json(&v, "explain", "--json", id)
	return v.Idle
}

func (x *idling) state(id string) string {
	x.Helper()
	out, err := x.lab.Run(context.Background(), "squeue", "--noheader", "--states=all", "--jobs="+id, "--format=%T")
	if err != nil {
		return "GONE"
	}
	return strings.TrimSpace(out)
}

// Jobs that sleep, spin or hang are found by what Prometheus says of their GPUs, and cancelled; none that works is, nor one that loads
// for longer than the time set, because an earlier run of its program did.
func TestIdleJobsAreFound(t *testing.T) {
	x := newIdling(t, `"cancel"`)
	d := x.daemon()
	d.waitLog("started")
	first := x.submitAs("learns", "loader")
	x.wait("the first loader to be a false alarm", func() bool {
		return slices.ContainsFunc(x.spells(first), func(s idle.Spell) bool { return s.FalseAlarm() && s.Kind == idle.NeverUsed })
	})
	var working, idling []string
	kinds := map[string]idle.Kind{}
	add := func(what string, n int, kind idle.Kind) {
		for i := range n {
			name := fmt.Sprint(what, i)
			if what == "loads" {
				name = "loader"
			}
			id := x.submitAs(what, name)
			if kind == "" {
				working = append(working, id)
				continue
			}
			idling, kinds[id] = append(idling, id), kind
		}
	}
	add("works", 3, "")
	add("loads", 2, "")
	add("sleeps", 2, idle.NeverUsed)
	add("spins", 1, idle.NeverUsed)
	add("hangs", 2, idle.Hung)
	for _, id := range idling {
		x.wait("job "+id+" to be cancelled", func() bool { return strings.HasPrefix(x.state(id), "CANCELLED") || x.state(id) == "GONE" })
		x.wait("its end to be recorded", func() bool {
			return slices.ContainsFunc(x.spells(id), func(s idle.Spell) bool {
				return s.How == idle.Cancelled && s.Kind == kinds[id] && s.Source == "prometheus"
			})
		})
	}
	for _, id := range append(working, first) {
		if state := x.state(id); state != "RUNNING" {
			t.Errorf("job %s, which works, is %s", id, state)
		}
		if s := x.spells(id); id != first && len(s) > 0 {
			t.Errorf("job %s, which works, was found: %+v", id, s[0])
		}
	}
	if out := x.must("report", "usage", "--since=1h"); !strings.Contains(out, "1 false alarm") || !strings.Contains(out, "Held without work") {
		t.Errorf("report usage:\n%s", out)
	}
	if out, _, _ := x.priod("check", "--json"); !strings.Contains(out, "prometheus shows the GPUs of") {
		t.Errorf("check:\n%s", out)
	}
}
