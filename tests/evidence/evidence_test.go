package main

import (
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A seed always gives the same jobs; trials end within their limit on every type; the jobs offer the load.
func TestGenerate(t *testing.T) {
	list, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, load := range []float64{0.5, 1.2} {
		jobs := generate(list, 3, 3000, load, 6)
		if again := generate(list, 3, 3000, load, 6); !reflect.DeepEqual(jobs, again) {
			t.Errorf("load %g: the second trace differs", load)
		}
		work, trials := 0.0, 0
		byType := map[string]float64{}
		for i, j := range jobs {
			if j.te {
				trials++
			}
			if longest := j.v100S() * j.program.slowest(j.gpus); longest > float64(j.limit) {
				t.Errorf("job %d runs for up to %.0f s, limit %d s", i+1, longest, j.limit)
			}
			work += float64(j.gpus) * j.v100S()
			for _, name := range gpuTypes {
				byType[name] += float64(j.gpus) * j.v100S() * j.program.steps[name][j.gpus] / j.program.steps["v100"][j.gpus]
			}
		}
		capacity := 0.0
		for _, name := range gpuTypes {
			capacity += 48 * byType[name] / work
		}
		if offered := work / capacity / float64(jobs[len(jobs)-1].submit); offered < 0.9*load || offered > 1.1*load {
			t.Errorf("offered load %.2f, want %g", offered, load)
		}
		if trials < 800 || trials > 1000 {
			t.Errorf("%d of 3000 jobs are trials", trials)
		}
	}
}

// A small study writes a whole page and a picture, and does nothing twice.
func TestStudy(t *testing.T) {
	dir := t.TempDir()
	page, picture := filepath.Join(dir, "page.md"), filepath.Join(dir, "picture.png")
	args := []string{"--dir", filepath.Join(dir, "work"), "--page", page, "--picture", picture, "--seeds", "1", "--jobs", "40", "--loads", "0.9,1.2"}
	if err := start(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"NaN", "Inf", "%!", "<nil>"} {
		if strings.Contains(string(text), bad) {
			t.Errorf("the page has %q:\n%s", bad, text)
		}
	}
	for _, want := range []string{"## Load 0.9", "| 1.2 | ", "| 0.9, wrong speeds | ", "| 0.9, untagged | ", "| 0.9, weather | ", "## Hostile users", "a fifth hostile", "| memory | FitGpp alone |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	f, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.Decode(f); err != nil {
		t.Errorf("%s: %v", picture, err)
	}
	stamps := func() map[string]string {
		of := map[string]string{}
		files, _ := filepath.Glob(filepath.Join(dir, "work", "*.json"))
		for _, path := range files {
			if info, err := os.Stat(path); err == nil {
				of[path] = info.ModTime().String()
			}
		}
		return of
	}
	first := stamps()
	if len(first) < 70 {
		t.Errorf("%d results are kept", len(first))
	}
	if err := start(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, stamps()) {
		t.Error("the second study simulated again")
	}
	testWeeks(t, filepath.Join(dir, "work"))
	testTries(t, filepath.Join(dir, "work"))
	testShares(t, filepath.Join(dir, "work"))
	for _, wrong := range [][]string{{"--loads", "0.9,x"}, {"--loads", "-1"}, {"--seeds", "0"}, {"left"}} {
		if err := start(t.Context(), wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
