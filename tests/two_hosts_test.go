package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// A hostOfPage is one of the hosts of docs/two-hosts.md, with folders of its own for what
// stands in /etc/slurmprio and /var/lib/priod.
type hostOfPage struct {
	*site
	shared string
	unit   *running // priod.service; nil while it is stopped
}

// pageUser runs priod there, in the place of user priod, which the page creates by installing.
const pageUser = "sys"

// newHostOfPage has what the page takes for granted: the packages' files and Slurm.
func newHostOfPage(t *testing.T, l *lab.Lab, host, shared string) *hostOfPage {
	t.Helper()
	dir, err := os.MkdirTemp("", host+"-") // TempDir's parent is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &hostOfPage{&site{TB: t, lab: l, host: host, user: pageUser, dir: dir, config: filepath.Join(dir, "etc", "priod.toml"), life: lifeOf(t)}, shared, nil}
	h.install()
	return h
}

// install is what the packages do, but that the example asks for a cycle each 2 s, and for no
// call of users, which are of the whole machine.
func (h *hostOfPage) install() {
	h.Helper()
	for _, f := range []string{"etc", "state"} {
		if err := os.RemoveAll(filepath.Join(h.dir, f)); err != nil {
			h.Fatal(err)
		}
	}
	example, err := os.ReadFile("../etc/priod.toml")
	if err != nil {
		h.Fatal(err)
	}
	text := strings.NewReplacer(`listen = ["unix:/run/priod/wake"]`, `listen = []`, `interval = "10s"`, `interval = "2s"`, "/var/lib/priod", filepath.Join(h.dir, "state")).Replace(string(example))
	if out, err := exec.Command("sh", "-ec", `chmod 755 "$1" && mkdir -p "$1/etc" && install -d -o `+pageUser+` -g `+pageUser+` -m 0750 "$1/state"`, "sh", h.dir).CombinedOutput(); err != nil {
		h.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(h.config+".example", []byte(text), 0o644); err != nil {
		h.Fatal(err)
	}
}

// here puts this host's names in the place of those on the page.
func (h *hostOfPage) here(text string) string {
	return strings.NewReplacer("/etc/slurmprio", filepath.Dir(h.config), "/slurm/priod", h.shared,
		"-u priod", "-u "+pageUser, "-o priod -g priod", "-o "+pageUser+" -g "+pageUser, "user priod", "user "+pageUser).Replace(text)
}

// types runs a line of the page on this host. systemd is played by this test, which starts and
// ends the daemons, and has priod's log for journalctl.
func (h *hostOfPage) types(line string) (out string, err error) {
	h.Helper()
	switch line {
	case "systemctl enable --now priod":
		if h.unit != nil {
			h.Fatalf("priod runs already on %s", h.host)
		}
		h.unit = h.daemon()
		return "", nil
	case "systemctl disable --now priod":
		h.unit.stop()
		h.unit = nil
		return "", nil
	case "systemctl start slurmctld":
		return "", h.lab.StartDaemon(h.life, map[string]string{lab.PrimaryHost: "slurmctld", lab.BackupHost: lab.Backup}[h.host])
	}
	if pattern, found := strings.CutPrefix(line, "journalctl --unit priod --grep "); found {
		for l := range strings.Lines(h.unit.log.String()) {
			if strings.Contains(l, strings.Trim(pattern, `"`)) {
				out += l
			}
		}
		return out, nil
	}
	ctx, cancel := context.WithTimeout(h.life, lab.Patience)
	defer cancel()
	c := h.lab.On(h.host).Command(ctx, "/bin/bash", "-ec", h.here(line))
	c.Env = append(c.Env, "PRIOD_CONFIG="+h.config, "PATH="+bin+":"+os.Getenv("PATH"))
	text, err := c.CombinedOutput()
	return string(text), err
}

// says reports whether an output has the lines of an example, in that order; ... stands for anything.
func (h *hostOfPage) says(out string, example []string) (missing string) {
	for _, want := range example {
		pattern := `(?m)^` + strings.ReplaceAll(regexp.QuoteMeta(h.here(want)), `\.\.\.`, `.*`) + `$`
		at := regexp.MustCompile(pattern).FindStringIndex(out)
		if at == nil {
			return want
		}
		out = out[at[1]:]
	}
	return ""
}

// where the commands of a block are typed, in the last words before it.
var where = regexp.MustCompile(`(?i)\bon (ctl1|ctl2|each host):\s*$`)

// A step of the page is a command, with what it prints where the page shows that.
type pageStep struct {
	heading, on, line string
	output            []string
}

func pageSteps(t *testing.T) (steps []pageStep) {
	t.Helper()
	text, err := os.ReadFile("../docs/two-hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	end := 0
	for _, m := range fenced.FindAllStringIndex(string(text), -1) {
		before := string(text[end:m[0]])
		end = m[1]
		b := blocks("docs/two-hosts.md", string(text[:m[1]]))
		block := b[len(b)-1]
		on := where.FindStringSubmatch(before)
		if on == nil {
			t.Fatalf("the page does not say on which host is typed:\n%s", block.text)
		}
		for line := range strings.Lines(block.text) {
			line = strings.TrimSuffix(line, "\n")
			if command, prompt := strings.CutPrefix(line, "$ "); prompt || block.kind == "sh" {
				steps = append(steps, pageStep{block.heading, on[1], command, nil})
			} else {
				last := &steps[len(steps)-1]
				last.output = append(last.output, line)
			}
		}
	}
	return steps
}

// The headings of the page at which TestTwoHostsByThePage does what no command does are there.
func TestTwoHostsHeadings(t *testing.T) {
	there := map[string]bool{}
	for _, s := range pageSteps(t) {
		there[s.heading] = true
	}
	for _, h := range []string{"Fail over on purpose", "A host is lost for good", "A new host in its place", "One host again"} {
		if !there[h] {
			t.Errorf("docs/two-hosts.md has no commands under %q", h)
		}
	}
}

// Two hosts are set up, failed over, lost and replaced by the commands of docs/two-hosts.md,
// each as it stands there and in that order, on a real Slurm with two controllers; and each
// prints what the page shows. Only the loss of a host, and the new machine, are this test's.
func TestTwoHostsByThePage(t *testing.T) {
	longOnly(t)
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("two controllers need root; make test as root runs this")
	}
	l := lab.ForTest(t, lab.Options{Backup: true, Nodes: []lab.NodeSpec{{Count: 1, GPUType: "t4", GPUs: 4}}})
	mount, err := os.MkdirTemp("", "slurm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(mount) })
	if err := os.Chmod(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(mount, "priod")
	hosts := map[string]*hostOfPage{}
	for _, name := range []string{lab.PrimaryHost, lab.BackupHost} {
		hosts[name] = newHostOfPage(t, l, name, shared)
	}
	first, second := hosts[lab.PrimaryHost], hosts[lab.BackupHost]
	if out, err := second.types("scontrol ping"); err != nil || strings.Count(out, " is UP") != 2 {
		t.Fatal(out, err)
	}
	submits := func(args ...string) string {
		id, err := l.Run(t.Context(), filepath.Join(bin, "sbatchwrap"), append(args, "--parsable", "--output=/dev/null", "--time=5", "--wrap", "sleep 600")...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(id)
	}
	for range 2 { // one runs, and one stands before the trials
		submits("--prio-type=be", "--gres=gpu:4")
	}
	trial := func() string { return submits("--prio-type=te", "--gres=gpu:1") }
	heading, waits := "", trial()
	ranked := func() bool {
		out, err := l.Run(t.Context(), "sprio", "--noheader", "--jobs="+waits, "--format=%S")
		return err == nil && strings.Trim(out, " 0\n") != ""
	}
	for _, s := range pageSteps(t) {
		if s.heading != heading {
			t.Logf("%s", s.heading)
			switch heading = s.heading; heading {
			case "Fail over on purpose":
				second.wait("the first value", ranked)
				saved(t, l)
			case "A host is lost for good":
				first.unit.kill()
				first.unit = nil
				if err := l.Kill(t.Context(), "slurmctld"); err != nil {
					t.Fatal(err)
				}
			case "A new host in its place":
				first.install()
			case "One host again":
				waits = trial()
				first.wait("a value of the new host", ranked)
			}
		}
		on := []*hostOfPage{hosts[s.on]}
		if s.on == "each host" {
			on = []*hostOfPage{first, second}
		}
		for _, h := range on {
			if len(s.output) == 0 {
				if out, err := h.types(s.line); err != nil {
					t.Fatalf("on %s: %s: %v\n%s", h.host, s.line, err, out)
				}
				continue
			}
			out, missing := "", ""
			ctx, cancel := context.WithTimeout(h.life, lab.Patience)
			err := lab.WaitFor(ctx, "what the page shows", func(context.Context) (bool, error) {
				out, err = h.types(s.line)
				missing = h.says(out, s.output)
				return err == nil && missing == "", nil
			})
			if cancel(); err != nil {
				t.Fatalf("on %s: %s: %v: no line %q in\n%s", h.host, s.line, err, missing, out)
			}
		}
	}
	first.must("reset")
	if left, err := l.Run(t.Context(), "sprio", "--noheader", "--format=%S"); err != nil || strings.Trim(left, " 0\n") != "" {
		t.Errorf("reset leaves %s, %v", left, err)
	}
	first.unit.stop()
}
