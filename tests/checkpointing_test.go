package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slurmprio/slurmplug/jobtag"
	"slurmprio/tests/lab"
)

// torch stands in for PyTorch: it has the calls of the document's script, and
// its model is one number that grows with each step.
const torch = `import pickle, time, types
class Module:
    def __init__(self, *_): self.weight = [0]
    def parameters(self): return [self.weight]
    def state_dict(self): return {"weight": self.weight[0]}
    def load_state_dict(self, saved): self.weight[0] = saved["weight"]
    def __call__(self, _): return Loss(self.weight)
class Loss:
    def __init__(self, weight): self.weight = weight
    def square(self): return self
    def mean(self): return self
    def backward(self): self.weight.append("gradient")
class Adam:
    def __init__(self, parameters): self.weight, self.taken = parameters[0], 0
    def zero_grad(self): del self.weight[1:]
    def state_dict(self): return {"taken": self.taken}
    def load_state_dict(self, saved): self.taken = saved["taken"]
    def step(self):
        assert self.weight[1:] == ["gradient"]
        self.weight[0] += 1
        self.taken += 1
        assert self.weight[0] == self.taken, "model and optimizer are not of one step"
        time.sleep(0.2)
nn = types.SimpleNamespace(Linear=Module)
optim = types.SimpleNamespace(Adam=Adam)
def randn(*_): return None
def save(what, path):
    with open(path, "wb") as f: pickle.dump(what, f)
def load(path):
    with open(path, "rb") as f: return pickle.load(f)
`

// scripts are the pages' blocks of bash and Python, each with the file name that the text
// before it gives last.
func scripts(t *testing.T, pages ...string) (names, texts []string) {
	t.Helper()
	name := regexp.MustCompile("`([a-z]+\\.(?:sh|py))`")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		rest := string(text)
		for _, b := range blocks(page, rest) {
			before, after, _ := strings.Cut(rest, b.text)
			rest = after
			if b.kind != "bash" && b.kind != "python" {
				continue
			}
			said := name.FindAllStringSubmatch(before, -1)
			if said == nil {
				t.Fatalf("%s: a block without a name: %.80s", page, b.text)
			}
			names, texts = append(names, said[0][1]), append(texts, b.text)
		}
	}
	return names, texts
}

// The scripts of docs/users.md and docs/users/checkpointing.md, as they stand there: each is stopped in
// its midst as priod stops a victim, requeued, and does every step once.
func TestCheckpointing(t *testing.T) {
	names, texts := scripts(t, "../docs/users.md", "../docs/users/checkpointing.md")
	if got := strings.Join(names, " "); got != "train.sh train.py job.sh steps.sh train.py" {
		t.Fatalf("the document has the scripts %s", got)
	}
	python := exec.Command("/bin/sh", "-c", "command -v python3").Run() == nil
	s := newOwnSite(t, "")
	const steps = 20
	for _, c := range []struct {
		name   string
		script string
		files  map[string]string
	}{
		{"bash", "train.sh", map[string]string{"train.sh": texts[0]}},
		{"python", "job.sh", map[string]string{"train.py": texts[1], "job.sh": texts[2]}},
		{"srun", "steps.sh", map[string]string{"train.py": texts[1], "steps.sh": texts[3]}},
		{"pytorch", "job.sh", map[string]string{"train.py": texts[4], "job.sh": texts[2], "torch.py": torch}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !python && c.name != "bash" {
				t.Skip("no python3 on this machine; make deps installs it")
			}
			t.Parallel()
			s := bareSite(t, s.lab)
			dir := t.TempDir()
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), lab.Patience)
			defer cancel()
			id, err := s.lab.Run(ctx, filepath.Join(bin, "sbatchwrap"), "--parsable", "--chdir="+dir, "--output="+dir+"/out", filepath.Join(dir, c.script), fmt.Sprint(steps))
			if err != nil {
				t.Fatal(err)
			}
			id = strings.TrimSpace(id)
			output := func() string {
				text, _ := os.ReadFile(dir + "/out")
				return string(text)
			}
			reach := func(line string) {
				t.Helper()
				err := lab.WaitFor(ctx, line, func(context.Context) (bool, error) { return strings.Contains(output(), line+"\n"), nil })
				if err != nil {
					t.Fatalf("%v; the output is\n%s", err, output())
				}
			}
			reach("step 4")
			stop(t, ctx, s, id)
			if err := s.lab.WaitJob(ctx, id, "FAILED"); err != nil {
				t.Fatal(err)
			}
			if out := s.slurm("scontrol", "show", "job", "-o", id); !strings.Contains(out, "ExitCode=99:0") {
				t.Errorf("it exits otherwise than it says: %s", out)
			}
			saved := strings.Count(output(), "step")
			if saved >= steps {
				t.Fatalf("it was too late to stop it\n%s", output())
			}
			s.slurm("scontrol", "requeue", id)
			// Not now: slurmd refuses a job whose last run there ended within the same
			// second ("Job credential revoked"), and Slurm takes that for its end.
			s.slurm("scontrol", "update", "JobId="+id, "StartTime=now+2")
			reach(fmt.Sprint("step ", steps))
			if err := s.lab.WaitJob(ctx, id, "COMPLETED"); err != nil {
				t.Fatalf("%v\n%s", err, output())
			}
			var want strings.Builder
			for i := range steps {
				fmt.Fprintf(&want, "step %d\n", i+1)
			}
			// srun says that its task ended with 99.
			got := regexp.MustCompile(`(?m)^srun: .*\n`).ReplaceAllString(output(), "")
			if got != want.String() {
				t.Errorf("stopped after %d steps, the output is\n%s", saved, output())
			}
		})
	}
}

// stop signals a job as its tag wants it.
func stop(t *testing.T, ctx context.Context, s *site, id string) {
	t.Helper()
	text, _ := jobtag.Split(strings.TrimSpace(s.slurm("squeue", "--noheader", "--format=%k", "--jobs="+id)))
	tag, err := jobtag.Parse(text)
	if err != nil || tag.Type != "be" {
		t.Fatalf("tag %q: %v", text, err)
	}
	args := []string{"--signal=" + strings.TrimPrefix(tag.Signal, "B:")}
	if strings.HasPrefix(tag.Signal, "B:") {
		args = append(args, "--batch")
	}
	if _, err := s.lab.Run(ctx, "scancel", append(args, id)...); err != nil {
		t.Fatal(err)
	}
}
