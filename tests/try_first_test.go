package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docs/users/canary.md as it stands there, with less time: a script that fails at once never gets all its GPUs; one that lives does.
func TestTryFirst(t *testing.T) {
	const page = "../docs/users/canary.md"
	names, texts := scripts(t, page)
	if len(names) != 1 || names[0] != "first.sh" {
		t.Fatalf("the page has the scripts %q", names)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var typed []string
	for _, b := range blocks(page, string(text)) {
		typed = append(typed, b.commands()...)
	}
	s := newSite(t, "")
	s.script("first.sh", texts[0])
	log := filepath.Join(s.dir, "first.log")
	for _, c := range []struct{ name, seconds, ends, first, then string }{
		{"fails", "60", "exit 3", "FAILED", "CANCELLED"}, // on a busy machine it may take more than a second to fail
		{"lives", "1", "sleep 600", "COMPLETED", "RUNNING"},
		{"succeeds", "60", "exit 0", "COMPLETED", "COMPLETED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.script("train.sh", "#!/bin/bash\n#SBATCH --gres=gpu:a100:2 --time=9 --output=/dev/null\n"+
				`echo "first=$TRY_FIRST gpus=$SLURM_GPUS_ON_NODE" >>`+log+"\n"+c.ends+"\n")
			commands := strings.Replace(strings.Join(typed, "\n"), " 1200 ", " "+c.seconds+" ", 1) + "\necho first job $first\n"
			cmd := s.lab.Command(t.Context(), "/bin/bash", "-ec", commands)
			cmd.Dir, cmd.Env = s.dir, append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "SBATCH_OUTPUT=/dev/null")
			out, err := cmd.CombinedOutput()
			words := strings.Fields(string(out))
			if err != nil || len(words) != 7 {
				t.Fatalf("%v\n%s", err, out)
			}
			job, first := words[3], words[6]
			defer s.slurm("scancel", job)
			if err := s.lab.WaitJob(s.Context(), first, c.first); err != nil {
				t.Fatal(err)
			}
			if err := s.lab.WaitJob(s.Context(), job, c.then); err != nil {
				t.Fatal(err)
			}
			want := "first=1 gpus=1\n"
			if c.name != "fails" {
				want += "first= gpus=2\n"
			}
			s.wait("what ran", func() bool { said, _ := os.ReadFile(log); return string(said) == want })
			os.Remove(log)
		})
	}
}
