package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"slurmprio/tests/browser"
	"slurmprio/tests/lab"
)

// people are the users of the cluster in the pictures.
var people = strings.Fields("ada bruno chen dalia emil farah goran hanna igor jana kofi lena marek nadia omar petra quinn rosa samir tilda umar vera wen xenia yuki zora aylin bjarne carla dmitri elif fabio greta hugo ines jonas katja luca mina noor")

// TestScreenshots takes the pictures of the documentation, where SLURMPRIO_SCREENSHOTS names a folder: a real Slurm with three GPU
// types, forty users, gangs, evictions and failures. The users exist in a mount namespace of this process alone.
func TestScreenshots(t *testing.T) {
	if os.Getenv("SLURMPRIO_SCREENSHOTS") == "" {
		t.Skip("SLURMPRIO_SCREENSHOTS names no folder")
	}
	const inside = "SLURMPRIO_SCREENSHOTS_INSIDE"
	if os.Getenv(inside) == "" {
		passwd, err := os.ReadFile("/etc/passwd")
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range people {
			passwd = fmt.Appendf(passwd, "%s:x:%d:100::/:/bin/sh\n", name, 20001+i)
		}
		file := filepath.Join(t.TempDir(), "passwd")
		if err := os.WriteFile(file, passwd, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/passwd && exec "$@"`, file, os.Args[0], "-test.run=^TestScreenshots$", "-test.v", "-test.timeout=20m")
		cmd.Env = append(os.Environ(), inside+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	s, trial := lively(t)
	s.takePictures(trial)
}

// lively is a cluster that looks alive, with a waiting trial for which others leave.
func lively(t *testing.T) (s *site, trial string) {
	accounts := []string{}
	for _, a := range []string{"vision", "climate", "genomics", "language"} {
		accounts = append(accounts, "add account "+a+" Organization=lab")
	}
	for i, name := range people {
		accounts = append(accounts, fmt.Sprintf("add user %s Account=%s", name, []string{"vision", "climate", "genomics", "language"}[i%4]))
	}
	l := lab.ForTest(t, lab.Options{
		Nodes:    []lab.NodeSpec{{Count: 8, GPUType: "a100", GPUs: 8, CPUs: 64, MemoryMB: 512 << 10}, {Count: 8, GPUType: "v100", GPUs: 4}, {Count: 6, GPUType: "t4", GPUs: 4}},
		Sacctmgr: accounts, RequeueDelay: 10,
	})
	s = newSiteOn(t, l, "")
	t.Cleanup(func() { s.slurm("scancel", "--quiet", "--partition=gpu") }) // clear cancels those of one user
	s.configure(fmt.Sprintf("[cycle]\ninterval = \"5s\"\n[web]\nlisten = \"unix:%s\"\n[speeds]\nmin_run = \"1s\"\ninterval = \"10s\"\n[preemption]\nmin_run = \"10s\"\ngrace = \"20s\"\nmin_gain = \"0s\"\n[retry]\nenabled = true\n", filepath.Join(s.dir, "web.sock")))
	text, err := os.ReadFile(s.config)
	if err := errors.Join(err, os.WriteFile(s.config, append([]byte("profile = \"balanced\"\n"), text...), 0o644)); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	program := []string{"train", "eval", "tune", "embed", "render"}
	submit := func(gpus, nodes int, class, limit, script string) string {
		who := r.IntN(len(people))
		args := []string{"--uid=" + people[who], "--chdir=/", "--job-name=" + program[r.IntN(len(program))], fmt.Sprintf("--nodes=%d", nodes), fmt.Sprintf("--gres=gpu:%d", gpus), "--time=" + limit}
		if class != "" {
			args = append(args, "--prio-type="+class)
		}
		return s.submit(append(args, "--wrap", script)...)
	}
	for range 160 { // from which run times are learned
		class := []string{"te", "be"}[r.IntN(2)]
		script := fmt.Sprintf("sleep %d", 1+r.IntN(12))
		if r.IntN(8) == 0 {
			script += []string{"; exit 1", "; echo CUDA out of memory >&2; exit 1", "; kill -SEGV $$"}[r.IntN(3)]
		}
		submit(1+r.IntN(4), 1, class, "30", script)
	}
	s.daemon()
	s.within(5*time.Minute, "short jobs to be over", func() bool {
		return s.slurm("squeue", "--noheader", "--states=PD,R") == ""
	})
	for range 3 { // gangs
		submit(8, 2, "be", "600", "sleep 1200")
	}
	for range 60 {
		submit(1+r.IntN(4), 1, []string{"be", "be", ""}[r.IntN(3)], fmt.Sprint(30+r.IntN(600)), fmt.Sprintf("sleep %d", 60+r.IntN(1200)))
	}
	s.slurm("scontrol", "update", "NodeName=t4-5,t4-6", "State=DRAIN", "Reason=fan")
	s.slurm("scontrol", "create", "reservation", "ReservationName=maintenance", "Nodes=v100-8", "Users=root", "StartTime=now+90minutes", "Duration=60", "Flags=IGNORE_JOBS")
	time.Sleep(20 * time.Second)
	submit(8, 4, "be", "600", "sleep 1200") // a gang that waits
	for range 60 {
		submit(1+r.IntN(4), 1, []string{"be", "be", "be", ""}[r.IntN(4)], fmt.Sprint(30+r.IntN(600)), fmt.Sprintf("sleep %d", 60+r.IntN(1200)))
	}
	for range 4 {
		submit(2, 1, "te", "20", "sleep 45")
	}
	s.within(2*time.Minute, "evictions", func() bool {
		out, _, _ := s.priod("evictions")
		return strings.Count(out, "\n") > 4
	})
	s.within(3*time.Minute, "expected starts", func() bool {
		out, _, _ := s.priod("queue", "--json")
		return strings.Contains(out, `"median"`)
	})
	trial = submit(4, 1, "te", "20", "sleep 300")
	time.Sleep(12 * time.Second)
	s.must("report", "value", "--refresh", "--since", "1h")
	return s, trial
}

func (s *site) takePictures(trial string) {
	socket := filepath.Join(s.dir, "web.sock")
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "priod"}) },
		Transport: socketTransport(socket), FlushInterval: -1,
	})
	s.Cleanup(server.Close)
	b := browser.New(s.TB.(*testing.T), server.URL)
	shot := func(name, path, scheme string, width int64) {
		b.Run(chromedp.EmulateViewport(width, 900), browser.Command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
		b.Open("/" + path)
		browser.Eval[bool](b, "new Promise((ok) => setTimeout(() => ok(true), 600))")
		b.ScreenshotOf(name, "")
	}
	waiting := ""
	s.wait("a waiting job", func() bool {
		waiting = strings.TrimSpace(s.slurm("sh", "-c", "squeue --noheader --states=PD --format=%i | tail -1"))
		return waiting != ""
	})
	for _, p := range []struct {
		name, path, scheme string
		width              int64
	}{
		{"overview", "", "light", 1400}, {"map", "map?colour=user", "dark", 1400}, {"queue", "queue", "light", 1400}, {"job", "job?id=" + waiting + "&if=1", "dark", 1400},
		{"evictions", "evictions", "light", 1400}, {"users", "users", "light", 1400}, {"time", "time?span=hour", "light", 1400}, {"phone", "queue", "light", 390},
	} {
		shot(p.name, p.path, p.scheme, p.width)
	}
	b.Run(chromedp.EmulateViewport(1400, 900))
	b.Open("/")
	b.ScreenshotOf("value", "#value")
	if found := b.Complaints(); len(found) > 0 {
		s.Error(errors.New(strings.Join(found, "\n")))
	}
}
