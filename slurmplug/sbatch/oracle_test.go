package sbatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// oracle is the real sbatch of this machine as an authority on its own
// grammar: a cli_filter prints what each het component resolved to, and the
// controller is a port that hangs up, so nothing is ever submitted.
type oracle struct {
	sbatch  string
	dir     string // slurm.conf, and bin/ for scripts in PATH
	grammar *Grammar
}

const oracleFilter = `function slurm_cli_setup_defaults(o, e) return slurm.SUCCESS end
function slurm_cli_pre_submit(o, off) io.stdout:write(off, "\t", slurm.json_cli_options(o), "\n") return slurm.SUCCESS end
function slurm_cli_post_submit(o, j, s) return slurm.SUCCESS end
`

// newOracle skips the test without an sbatch that can run the cli_filter,
// unless SLURMPRIO_REQUIRE_LAB=1 asks for it.
func newOracle(t testing.TB) *oracle {
	t.Helper()
	path, err := exec.LookPath("sbatch")
	if err != nil {
		missing(t, "no sbatch in PATH")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	o := &oracle{sbatch: path, dir: t.TempDir()}
	conf := fmt.Sprintf("ClusterName=o\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=%d\nAuthType=auth/none\n"+
		"CredType=cred/none\nGresTypes=gpu\nSelectType=select/cons_tres\nCliFilterPlugins=lua\nNodeName=n1\nPartitionName=p Nodes=n1 Default=YES\n",
		listener.Addr().(*net.TCPAddr).Port)
	write(t, filepath.Join(o.dir, "slurm.conf"), conf)
	write(t, filepath.Join(o.dir, "cli_filter.lua"), oracleFilter)
	if err := os.Mkdir(filepath.Join(o.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if o.grammar, err = (Installed{Path: path, Env: o.env(nil)}).Grammar(); err != nil {
		missing(t, err.Error())
	}
	if o.grammar.release < Releases[0] {
		missing(t, "sbatch "+o.grammar.release.String()+" is older than the option table")
	}
	if a := o.ask(t, t.TempDir(), submission{args: []string{"--wrap=true"}}); len(a.jobs) != 1 {
		missing(t, "sbatch has no cli_filter/lua: "+a.stderr)
	}
	return o
}

func missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("SLURMPRIO_REQUIRE_LAB") == "1" {
		t.Fatal(why)
	}
	t.Skip(why + "; the comparison with the real sbatch is left out")
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (o *oracle) env(more []string) []string {
	return append([]string{"SLURM_CONF=" + filepath.Join(o.dir, "slurm.conf"), "PATH=/nowhere", "LC_ALL=C"}, more...)
}

// answer is what sbatch made of a submission.
type answer struct {
	jobs   []map[string]string
	argv   []string
	stdout string
	stderr string
	code   int
}

// ask runs sbatch in cwd with the script on standard input.
func (o *oracle) ask(t tb, cwd string, s submission) answer {
	t.Helper()
	cmd := exec.Command(o.sbatch, s.args...)
	cmd.Dir = cwd
	cmd.Env = o.env(s.env)
	cmd.Stdin = strings.NewReader(s.script)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v", err)
	}
	a := answer{stdout: out.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	for line := range strings.Lines(out.String()) {
		_, object, ok := strings.Cut(line, "\t{")
		if !ok {
			continue
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte("{"+object), &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		job := map[string]string{}
		for name, raw := range fields {
			if name == "argv" {
				if err := json.Unmarshal(raw, &a.argv); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				continue
			}
			var value string
			if err := json.Unmarshal(raw, &value); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			job[name] = value
		}
		a.jobs = append(a.jobs, job)
	}
	return a
}
