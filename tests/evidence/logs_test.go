package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A week as it was has what was submitted in it; a steady one also what remains of the jobs that ran, of the class of their whole run.
func TestWithin(t *testing.T) {
	const day = 86400
	jobs := []weekJob{
		{submit: day - 5000, seconds: 4000, gpus: 1}, {submit: day - 1000, seconds: 2000, gpus: 2}, {submit: day - 100, seconds: 400, gpus: 3},
		{submit: day + 10, seconds: 30 * day, gpus: 4}, {submit: 8 * day, seconds: 60, gpus: 5},
	}
	cold := []weekJob{{submit: 10, seconds: 30 * day, gpus: 4}}
	if was := within(jobs, 1, false); !reflect.DeepEqual(was, cold) {
		t.Errorf("as it was: %+v", was)
	}
	want := append([]weekJob{{seconds: 1000, gpus: 2, before: 1000}, {seconds: 300, gpus: 3, before: 100}}, cold...)
	steady := within(jobs, 1, true)
	if !reflect.DeepEqual(steady, want) {
		t.Errorf("steady: %+v", steady)
	}
	if steady[0].te() || !steady[1].te() {
		t.Error("a run of 2,000 s is a trial, or one of 400 s is none")
	}
}

// Each figure is named once, with the lesser of its limits; at its limit, or a thousandth above it, it is none of them.
func TestFailures(t *testing.T) {
	slurm := figures{MeanH: 3, TEMeanS: 900, TESlowdownP95: 50, TEWaitP95S: 5000, TEWaitP99S: 9000, BEMeanH: 10, BESlowdownP50: 1, BESlowdownP95: 4}
	expert := figures{MeanH: 2, TEMeanS: 300, TESlowdownP95: 4, TEWaitP95S: 70, TEWaitP99S: 80, BEMeanH: 11, BESlowdownP50: 2, BESlowdownP95: 6}
	ours := figures{MeanH: 2, TEMeanS: 315, TESlowdownP95: 51, TEWaitP95S: 130, TEWaitP99S: 140, BEMeanH: 10.2, BESlowdownP50: 1.02, BESlowdownP95: 4}
	if list := failures(&ours, &slurm, &expert); len(list) > 0 {
		t.Errorf("at the limits: %q", list)
	}
	for i, want := range wanted {
		if list := failures(&expert, &slurm, &expert); len(list) != 3 {
			t.Errorf("the expert's: %q", list)
		}
		worse := ours
		field := reflect.ValueOf(&worse).Elem().FieldByName([]string{"MeanH", "TEMeanS", "TESlowdownP95", "TEWaitP95S", "TEWaitP99S", "BEMeanH", "BESlowdownP50", "BESlowdownP95"}[i])
		field.SetFloat(field.Float() * 1.002)
		if list := failures(&worse, &slurm, &expert); len(list) != 1 || !strings.HasPrefix(list[0], want.name) {
			t.Errorf("worse %s: %q", want.name, list)
		}
	}
}

// testWeeks: the weeks' page has both kinds of each week and a verdict of each setup that is tried. The study in work is built.
func testWeeks(t *testing.T, work string) {
	dir := t.TempDir()
	for i := range publicLogs {
		if err := publicLogs[i].write(dir); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "slow.toml")
	if err := os.WriteFile(config, []byte("[cycle]\ninterval = \"60s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	args := []string{"--dir", work, "--data", dir, "--days", "20", "--log", "philly", "--table", "markdown", "--config", config}
	if err := startWeeks(t.Context(), args, &page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## As it was\n", "## Steady\n", "| Philly, 20 | 168, ", "| Philly, 20 | 171, ", "priod, slow:", "Evictions in all weeks", " of 2 weeks reach"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, &page)
		}
	}
	for _, wrong := range [][]string{{"--log", "x"}, {"--kind", "x"}, {"--days", "1,x"}, {"--table", "x"}, {"--days", "99"}, {"left"}} {
		if err := startWeeks(t.Context(), append([]string{"--data", dir, "--dir", dir}, wrong...), &page); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// write writes a log of 40 days, a job each hour, every third one a trial, in the log's columns.
func (l *publicLog) write(folder string) error {
	f, err := os.Create(filepath.Join(folder, l.file))
	if err != nil {
		return err
	}
	w := gzip.NewWriter(f)
	fmt.Fprintf(w, "other,%s,%s,%s\n", l.submit, l.seconds, l.gpus)
	for hour := range 40 * 24 {
		fmt.Fprintf(w, "x,%d,%d,%d\n", 3600*hour, 600+7200*(hour%3), 1<<(hour%5))
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}
