package tests

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/store"
	"slurmprio/priod/web"
	"slurmprio/tests/browser"
)

// people are the users of the cluster in the pictures.
var people = strings.Fields("ada bruno chen dalia emil farah goran hanna igor jana kofi lena marek nadia omar petra quinn rosa samir tilda umar vera wen xenia yuki zora aylin bjarne carla dmitri elif fabio greta hugo ines jonas katja luca mina noor")

// TestScreenshots takes the pictures of the documentation, where SLURMPRIO_SCREENSHOTS names a folder: pages of a replay of a week
// on three GPU types, of forty users, with maintenance, nodes that fail, jobs that fail and evictions.
func TestScreenshots(t *testing.T) {
	if os.Getenv("SLURMPRIO_SCREENSHOTS") == "" {
		t.Skip("SLURMPRIO_SCREENSHOTS names no folder")
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	jobs, nodes, events, state := file("week.csv", busyWeek(2800)), file("nodes.toml", weekNodes), file("events.toml", weekEvents), filepath.Join(dir, "week")
	out, err := exec.Command(filepath.Join(bin, "priod"), "--config", os.DevNull, "simulate", "--trace", jobs, "--cluster", nodes, "--node-events", events,
		"--requeue-delay", "2m", "--mtbf", "1500h", "--repair", "3h", "--set", "profile=balanced", "--set", "preemption.min_run=5m", "--state", state).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c, err := config.Load(os.DevNull, "profile=balanced", "locality.enabled=false")
	if err != nil {
		t.Fatal(err)
	}
	c.State.Dir = state
	server := httptest.NewServer((&web.Pages{Config: c, Version: "1.0.0", Keep: time.Minute}).Handler())
	t.Cleanup(server.Close)
	takePictures(t, server.URL, state)
}

const weekNodes = `[[nodes]]
count = 8
gpu_type = "a100"
gpus = 8
cpus = 64
mem_mb = 524288

[[nodes]]
count = 8
gpu_type = "v100"
gpus = 4
cpus = 40
mem_mb = 393216

[[nodes]]
count = 6
gpu_type = "t4"
gpus = 4
cpus = 32
mem_mb = 196608
`

const weekEvents = `[[events]]
at = "76h"
event = "maintenance"
announced = "36h"
nodes = "v100"
for = "6h"

[[events]]
at = "120h"
event = "drain"
nodes = "n[16-17]"
for = "20h"
`

// busyWeek is a trace of so many jobs within seven days, more by day than by night, at nine tenths of 120 GPUs.
func busyWeek(jobs int) string {
	const week, load = 7 * 86400, 0.9 * 120
	r := rand.New(rand.NewPCG(7, 7))
	accounts := []string{"vision", "climate", "genomics", "language"}
	programs := []string{"resnet-50-64", "resnet-18-128", "transformer-64", "lm-20"}
	arrivals, work := make([]float64, jobs), 0.0
	for i := range arrivals {
		for at := 0.0; ; {
			if at = r.Float64() * week; 2*r.Float64() < 1-math.Cos((at/86400-1.0/12)*2*math.Pi) {
				arrivals[i] = at
				break
			}
		}
	}
	slices.Sort(arrivals)
	type job struct {
		gpus    int
		seconds float64
		trial   bool
	}
	all := make([]job, jobs)
	for i := range all {
		j := &all[i]
		if j.trial = r.IntN(3) == 0; j.trial {
			j.gpus, j.seconds = 1+r.IntN(2), min(300*math.Exp(r.NormFloat64()), 3600)
			continue
		}
		j.gpus, j.seconds = []int{1, 1, 1, 2, 2, 4, 8}[r.IntN(7)], 3600*math.Exp(1.2*r.NormFloat64())
		work += float64(j.gpus) * j.seconds
	}
	var text strings.Builder
	text.WriteString("job_id,submit_s,gpus,duration_s,limit_s,type,grace_s,ckpt_s,user,account,workload,failed_runs,retry\n")
	for i, j := range all {
		class, workload, failed, retry, who := "te", "", "", "", int(float64(len(people))*r.Float64()*r.Float64())
		if !j.trial {
			j.seconds = min(j.seconds*load*week/work, 2*86400)
			class = []string{"be", "be", "be", "be", "untagged"}[r.IntN(5)]
			if class == "be" && r.IntN(2) == 0 {
				workload = programs[r.IntN(len(programs))]
			}
		}
		if r.IntN(25) == 0 {
			failed, retry = []string{"90 FAILED 1:0", "40 OUT_OF_MEMORY 0:125", "200 NODE_FAIL 0:9"}[r.IntN(3)], "infra"
		}
		limit := j.seconds * (1.2 + 2*r.Float64())
		fmt.Fprintf(&text, "%d,%.0f,%d,%.0f,%.0f,%s,60,1800,%s,%s,%s,%s,%s\n", 40001+i, arrivals[i], j.gpus, j.seconds+30, limit+300, class, people[who], accounts[who%4], workload, failed, retry)
	}
	return text.String()
}

// takePictures is of the Thursday at two in the afternoon.
func takePictures(t *testing.T, address, state string) {
	b := browser.New(t, address)
	shot := func(name, path, scheme string, width int64) {
		b.Run(chromedp.EmulateViewport(width, 900), browser.Command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
		b.Open("/" + path)
		browser.Eval[bool](b, "new Promise((ok) => setTimeout(() => ok(true), 600))")
		b.ScreenshotOf(name, "")
	}
	thursday := time.Date(2024, 1, 4, 14, 0, 0, 0, time.Local)
	r, err := store.OpenReaderAt(t.Context(), state, thursday)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	queue, err := r.Queue(t.Context())
	waiting := slices.IndexFunc(queue, func(q store.Queued) bool { return q.Job.State == cluster.Pending.String() })
	if err != nil || waiting < 0 {
		t.Fatal("no job waits", err)
	}
	then := "at/" + thursday.UTC().Format("2006-01-02T15:04:05Z") + "/"
	for _, p := range []struct {
		name, path, scheme string
		width              int64
	}{
		{"overview", then, "light", 1400}, {"map", then + "map?colour=user", "dark", 1400}, {"queue", then + "queue", "light", 1400},
		{"job", then + "job?id=" + queue[waiting].Job.ID.String(), "dark", 1400}, {"evictions", "at/2024-01-07T14:00:00Z/evictions", "light", 1400}, {"users", then + "users", "light", 1400},
		{"time", "time?span=week", "light", 1400}, {"phone", then + "queue", "light", 390},
	} {
		shot(p.name, p.path, p.scheme, p.width)
	}
	b.Run(chromedp.EmulateViewport(1400, 900), browser.Command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}))
	b.Open("/")
	b.ScreenshotOf("value", "#value")
	for _, x := range []struct{ name, path, title string }{
		{"week", "time?span=week", "Waiting jobs by class"}, {"week-without", "without/time?span=week", "Waiting jobs by class"}, {"hours", "time?span=week", "Where the cluster's GPUs were"},
	} {
		b.Open("/" + x.path)
		browser.Eval[bool](b, fmt.Sprintf("new Promise((ok) => setTimeout(() => ok([...document.querySelectorAll('.plots > *')].find((x) => x.textContent.includes(%q)).id = 'shot'), 600)).then(() => true)", x.title))
		b.ScreenshotOf(x.name, "#shot")
	}
	if found := b.Complaints(); len(found) > 0 {
		t.Error(errors.New(strings.Join(found, "\n")))
	}
}
