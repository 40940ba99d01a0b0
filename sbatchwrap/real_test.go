package main

import (
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
	writeFile(t, filepath.Join(dir("site"), "sbatch"), "#!/bin/sh\nexec "+real+" --site \"$@\"\n")

	path := func(dirs ...string) string {
		for i := range dirs {
			if !strings.HasPrefix(dirs[i], ".") {
				dirs[i] = filepath.Join(root, dirs[i])
			}
		}
		return "PATH=" + strings.Join(append(dirs, "/bin"), ":")
	}
	for _, c := range []struct {
		name   string
		called string // the program started; "" for the wrapper under its own name
		env    []string
		want   string // the error; "" when sbatch is run
	}{
		{"as sbatchwrap", "", []string{path("real")}, ""},
		{"symbolic link called sbatch", "symlink/sbatch", []string{path("symlink", "real")}, ""},
		{"hard link called sbatch", "hardlink/sbatch", []string{path("hardlink", "symlink", "real")}, ""},
		{"copy called sbatch", "copy/sbatch", []string{path("copy", "real")}, ""},
		{"copies of other builds", "copy/sbatch", []string{path("older", "copy", "hardlink", "real")}, ""},
		{"what can't be run", "", []string{path("folder", "data", "real")}, ""},
		{"relative folders", "", []string{path(".", "./real", "real")}, ""},
		{"a site's own script", "", []string{path("site")}, ""},
		{"named", "", []string{"PATH=/nowhere", "SBATCHWRAP_SBATCH=" + real}, ""},
		{"named by a link", "", []string{"PATH=/nowhere", "SBATCHWRAP_SBATCH=" + root + "/real/sbatch"}, ""},
		{"none", "", []string{"PATH=/nowhere"}, "no sbatch in PATH: install Slurm's client, set SBATCHWRAP_SBATCH to the path of the real sbatch, or make /etc/slurmprio/sbatch a link to it"},
		{"only itself", "symlink/sbatch", []string{"PATH=" + root + "/symlink"}, `no sbatch in PATH ("ROOT/symlink/sbatch" is sbatchwrap itself): install Slurm's client, set SBATCHWRAP_SBATCH to the path of the real sbatch, or make /etc/slurmprio/sbatch a link to it`},
		{"no PATH", "", nil, "no sbatch in PATH: install Slurm's client, set SBATCHWRAP_SBATCH to the path of the real sbatch, or make /etc/slurmprio/sbatch a link to it"},
		{"names itself", "", []string{"SBATCHWRAP_SBATCH=" + root + "/copy/sbatch"}, `SBATCHWRAP_SBATCH says that sbatch is "ROOT/copy/sbatch", which is sbatchwrap itself: name the real sbatch`},
		{"names nothing", "", []string{"SBATCHWRAP_SBATCH=/nowhere/sbatch"}, `SBATCHWRAP_SBATCH says that sbatch is "/nowhere/sbatch", which is no program that can be run`},
		{"names data", "", []string{"SBATCHWRAP_SBATCH=" + root + "/data/sbatch"}, `SBATCHWRAP_SBATCH says that sbatch is "ROOT/data/sbatch", which is no program that can be run`},
		{"names a relative path", "", []string{"SBATCHWRAP_SBATCH=sbatch"}, `SBATCHWRAP_SBATCH is "sbatch": want an absolute path`},
		{"a script that runs the wrapper", "", []string{path("loop")}, `"ROOT/loop/sbatch" is a script that runs sbatchwrap again: set SBATCHWRAP_SBATCH to the path of the real sbatch`},
		{"a script that becomes the wrapper", "", []string{path("execloop")}, `"ROOT/execloop/sbatch" is a script that runs sbatchwrap again: set SBATCHWRAP_SBATCH to the path of the real sbatch`},
		{"a guard inherited by a job", "", []string{path("site"), "SBATCHWRAP_GUARD=1:0"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			called := wrapper
			if c.called != "" {
				called = filepath.Join(root, c.called)
			}
			cmd := exec.Command(called, "--prio-type=te", "--wrap=true")
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
