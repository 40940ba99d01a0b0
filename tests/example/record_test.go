package example

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"slurmprio/tests/lab"
)

var record = flag.Bool("record", false, "record slurm.txtar anew from a real Slurm")

// TestRecord submits the jobs of README.md to a real Slurm and keeps what it answers while
// priod runs its cycle and explains.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("-record records the answers of a real Slurm anew")
	}
	l := lab.ForTest(t, lab.Options{
		Nodes:     []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}},
		ExtraConf: []string{"SchedulerParameters=defer,batch_sched_delay=60,sched_interval=60,bf_interval=90"}, // time for a cycle before jobs start
	})
	t.Setenv("SLURM_CONF", l.Conf())
	submit(t, l)
	s := newSite(t)
	s.write("recording", nil)
	time.Sleep(11 * time.Second) // Slurm might have looked at the jobs: no job leaves for one before
	at := time.Now().UTC().Format(time.RFC3339)
	s.story()
	s.keep(l, at)
}

// submit runs the command lines of README.md; the first two jobs start before the others come.
func submit(t *testing.T, l *lab.Lab) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(l.Dir, "work")
	wrap, err := lab.Build(t.TempDir(), "sbatchwrap")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		line, ok := strings.CutPrefix(line, "    sbatchwrap ")
		if !ok {
			continue
		}
		fields := strings.Fields(line)
		script := "#!/bin/sh\ntrap 'sleep 60; exit' TERM\nsleep 900 & wait\n" // it takes its time to leave
		if err := os.WriteFile(filepath.Join(dir, fields[len(fields)-1]), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Run(t.Context(), "/bin/sh", "-c", "cd "+dir+" && "+wrap+" --output=/dev/null "+line); err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			for _, id := range []string{"1", "2"} {
				if err := l.WaitJob(t.Context(), id, "RUNNING"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// recordAnswer runs the real command and keeps its answer.
func recordAnswer(dir, name string, args []string) error {
	line, marks := readable(name, args)
	cmd := exec.Command("/usr/bin/"+name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(out); err != nil {
		return err
	}
	entry := txtar.Archive{Files: []txtar.File{{Name: line, Data: []byte(marks.outOf(string(out)))}}}
	return appendTo(filepath.Join(dir, "answers"), string(txtar.Format(&entry)))
}

// keep writes slurm.txtar: each call with its answers, long ones last.
func (s *site) keep(l *lab.Lab, at string) {
	host, err := os.Hostname()
	if err != nil {
		s.Fatal(err)
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		s.Fatal(err)
	}
	scrub := strings.NewReplacer(l.Dir, "/lab", " at "+host+" is", " at head is", "= "+host, "= head", strings.TrimSpace(string(kernel)), "6.1.0")
	answers, names := map[string][]string{}, []string(nil)
	for _, f := range read(s.T, filepath.Join(s.bin, "answers")).Files {
		if answers[f.Name] == nil {
			names = append(names, f.Name)
		}
		answers[f.Name] = append(answers[f.Name], port.ReplaceAllString(scrub.Replace(string(f.Data)), "${1} PORT"))
	}
	kept := txtar.Archive{Comment: []byte(at + "\n")}
	for _, name := range names {
		all := answers[name]
		for n := len(all) - 1; n > 0 && (all[n] == all[n-1] || name == "sdiag"); n-- { // the last one is repeated; of sdiag only counts differ
			all = all[:n]
		}
		for _, text := range all {
			kept.Files = append(kept.Files, txtar.File{Name: name, Data: []byte(text)})
		}
	}
	slices.SortStableFunc(kept.Files, func(a, b txtar.File) int { return len(a.Data)/2000 - len(b.Data)/2000 })
	if err := os.WriteFile("slurm.txtar", txtar.Format(&kept), 0o644); err != nil {
		s.Fatal(err)
	}
}

var port = regexp.MustCompile(`(?m)^(SlurmctldPort +=) .*$`)
