package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFindSbatch installs the wrapper in the ways that sites do.
func TestFindSbatch(t *testing.T) {
	wrapper, real := program(t, wrapperOnce), program(t, recordOnce)
	root := t.TempDir()
	dir := func(name string) string {
		d := filepath.Join(root, name)
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		return d
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(wrapper)
	must(err)
	wrapper = filepath.Join(dir("wrapper"), "sbatchwrap") // on the same file system, for a hard link
	writeFile(t, wrapper, string(content))
	must(os.Symlink(real, filepath.Join(dir("real"), "sbatch")))
	must(os.Symlink(wrapper, filepath.Join(dir("symlink"), "sbatch")))
	must(os.Link(wrapper, filepath.Join(dir("hardlink"), "sbatch")))
	writeFile(t, filepath.Join(dir("copy"), "sbatch"), string(content))
	writeFile(t, filepath.Join(dir("older"), "sbatch"), string(content)+"another build")
	must(os.Mkdir(filepath.Join(dir("folder"), "sbatch"), 0o755))
	must(os.WriteFile(filepath.Join(dir("data"), "sbatch"), []byte("#!/bin/sh\n"), 0o644))
	writeFile(t, filepath.Join(dir("loop"), "sbatch"), "#!/bin/sh\n"+wrapper+" \"$@\"\n")
	writeFile(t, filepath.Join(dir("execloop"), "sbatch"), "#!/bin/sh\nexec "+wrapper+" \"$@\"\n")
	writeFile(t, filepath.Join(root, "te.sh"), "#!/bin/sh\n#PRIO --prio-type=te\ntrue\n")
	writeFile(t, filepath.Join(dir("site"), "sbatch"), "#!/bin/sh\nexec "+real+" --site \"$@\"\n")

	path := func(dirs ...string) string {
		for i := range dirs {
			if !strings.HasPrefix(dirs[i], ".") {
				dirs[i] = filepath.Join(root, dirs[i])
			}
		}
		return "PATH=" + strings.Join(append(dirs, "/bin"), ":")
	}
	type call struct {
		name   string
		called string // the program started; "" for the wrapper under its own name
		env    []string
		args   []string // nil: of a TE job
		want   string   // the error; "" when sbatch is run
	}
	calls := []call{
		{"as sbatchwrap", "", []string{path("real")}, nil, ""},
		{"symbolic link called sbatch", "symlink/sbatch", []string{path("symlink", "real")}, nil, ""},
		{"hard link called sbatch", "hardlink/sbatch", []string{path("hardlink", "symlink", "real")}, nil, ""},
		{"copy called sbatch", "copy/sbatch", []string{path("copy", "real")}, nil, ""},
		{"copies of other builds", "copy/sbatch", []string{path("older", "copy", "hardlink", "real")}, nil, ""},
		{"what can't be run", "", []string{path("folder", "data", "real")}, nil, ""},
		{"relative folders", "", []string{path(".", "./real", "real")}, nil, ""},
		{"a site's own script", "", []string{path("site")}, nil, ""},
		{"named", "", []string{"PATH=/nowhere", "SBATCHWRAP_SBATCH=" + real}, nil, ""},
		{"named by a link", "", []string{"PATH=/nowhere", "SBATCHWRAP_SBATCH=" + root + "/real/sbatch"}, nil, ""},
		{"none", "", []string{"PATH=/nowhere"}, nil, "no sbatch in PATH: install Slurm's client, set SBATCHWRAP_SBATCH to the path of the real sbatch, or make /etc/slurmprio/sbatch a link to it"},
		{"only itself", "symlink/sbatch", []string{"PATH=" + root + "/symlink"}, nil, `no sbatch in PATH ("ROOT/symlink/sbatch" is sbatchwrap itself): install Slurm's client, set SBATCHWRAP_SBATCH to the path of the real sbatch, or make /etc/slurmprio/sbatch a link to it`},
		{"no PATH", "", nil, nil, "no sbatch in PATH: install Slurm's client, set SBATCHWRAP_SBATCH to the path of the real sbatch, or make /etc/slurmprio/sbatch a link to it"},
		{"names itself", "", []string{"SBATCHWRAP_SBATCH=" + root + "/copy/sbatch"}, nil, `SBATCHWRAP_SBATCH says that sbatch is "ROOT/copy/sbatch", which is sbatchwrap itself: name the real sbatch`},
		{"names nothing", "", []string{"SBATCHWRAP_SBATCH=/nowhere/sbatch"}, nil, `SBATCHWRAP_SBATCH says that sbatch is "/nowhere/sbatch", which is no program that can be run`},
		{"names data", "", []string{"SBATCHWRAP_SBATCH=" + root + "/data/sbatch"}, nil, `SBATCHWRAP_SBATCH says that sbatch is "ROOT/data/sbatch", which is no program that can be run`},
		{"names a relative path", "", []string{"SBATCHWRAP_SBATCH=sbatch"}, nil, `SBATCHWRAP_SBATCH is "sbatch": want an absolute path`},
		{"a guard inherited by a job", "", []string{path("site"), "SBATCHWRAP_GUARD=1:0"}, nil, ""},
	}
	for _, loop := range []string{"loop", "execloop"} { // a script that runs the wrapper, or becomes it
		for _, args := range [][]string{nil, {"--wrap=true"}, {"te.sh"}, {"--help"}, {"--version"}, {"--no-such", "te.sh"}} {
			calls = append(calls, call{fmt.Sprint(loop, args), "", []string{path(loop), "SBATCHWRAP_TYPE=te"}, args, `"ROOT/` + loop + `/sbatch" is a script that runs sbatchwrap again: set SBATCHWRAP_SBATCH to the path of the real sbatch`})
		}
	}
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			called := wrapper
			if c.called != "" {
				called = filepath.Join(root, c.called)
			}
			if c.args == nil {
				c.args = []string{"--prio-type=te", "--wrap=true"}
			}
			cmd := exec.Command(called, c.args...)
			cmd.Env = append([]string{}, c.env...)
			cmd.Dir = root
			timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
			defer timer.Stop()
			o := finish(t, cmd)
			if c.want == "" {
				if o.record == nil || o.record.Args[len(o.record.Args)-1] != "--comment=prio:type=te&v=1" {
					t.Fatalf("%d %s%s", o.code, o.stdout, o.stderr)
				}
				wantName := "sbatch"
				if c.called != "" {
					wantName = called
				}
				if o.record.Name != wantName && c.name != "a site's own script" && c.name != "a guard inherited by a job" {
					t.Errorf("argv[0] is %q, want %q", o.record.Name, wantName)
				}
				return
			}
			if want := "sbatchwrap: " + strings.ReplaceAll(c.want, "ROOT", root) + "\n"; o.stderr != want || o.code != 1 || o.record != nil {
				t.Errorf("exit status %d\n got %swant %s", o.code, o.stderr, want)
			}
		})
	}
}
