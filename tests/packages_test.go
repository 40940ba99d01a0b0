package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"slurmprio/slurmplug/prio"
)

// What of the packages can be seen without building any; tests/packages.sh installs them.

// nfpmConfig is the part of an nfpm configuration that names files.
type nfpmConfig struct {
	Name     string
	Contents []struct{ Src, Dst string }
	Scripts  map[string]string
}

// Every file that a package names is there, and every file that was made for packages is in one.
func TestPackagesNameFilesThatExist(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make: the roots of other Slurms have none")
	}
	out, err := exec.Command("make", "-C", "..", "-n", "--no-print-directory", "install-client", "install-daemon",
		"VERSION=v", "PREFIX=/usr", "DESTDIR=/nowhere", "BIN=/nowhere/bin").Output()
	if err != nil {
		t.Fatalf("make -n: %v", err)
	}
	installed := string(out)
	for _, name := range regexp.MustCompile(`(?m)\s(etc/[\w./-]+|[A-Z]{4,}(?:\.md)?)(?:\s|$)`).FindAllStringSubmatch(installed, -1) {
		if _, err := os.Stat("../" + name[1]); err != nil {
			t.Errorf("make install: %v", err)
		}
	}
	for _, name := range []string{"slurmprio", "slurmprio-client"} {
		text, err := os.ReadFile("../etc/package/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var c nfpmConfig
		if err := yaml.Unmarshal(text, &c); err != nil {
			t.Fatal(name, err)
		}
		if c.Name != name || len(c.Contents) == 0 {
			t.Errorf("%s.yaml is of %q and has %d contents", name, c.Name, len(c.Contents))
		}
		for _, f := range c.Contents {
			if f.Src == "${STAGE}/"+name+"/usr" { // filled by make install
				continue
			}
			installed += f.Src + "\n"
			if _, err := os.Stat("../" + f.Src); err != nil {
				t.Errorf("%s.yaml: %v", name, err)
			}
		}
		for _, script := range c.Scripts {
			if _, err := os.Stat("../" + script); err != nil {
				t.Errorf("%s.yaml: %v", name, err)
			}
		}
	}
	for _, folder := range []string{"completion", "grafana", "man", "prometheus", "slurm", "systemd"} {
		files, err := os.ReadDir("../etc/" + folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name := "etc/" + folder + "/" + f.Name(); !strings.Contains(installed, name) {
				t.Errorf("%s is in no package: see install-client and install-daemon in the Makefile", name)
			}
		}
	}
}

// The scripts of the packages say what to do when they should, and nothing else. Only commands
// that do nothing are in PATH.
func TestMaintainerScripts(t *testing.T) {
	stubs := t.TempDir()
	for _, name := range []string{"systemctl", "systemd-sysusers", "systemd-tmpfiles"} {
		if err := os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const reset, start = "`priod reset`, which wants this package", "nothing was started"
	for _, c := range []struct{ call, says string }{
		{"prerm remove", reset},
		{"prerm 0", reset},
		{"prerm upgrade 1.1", ""},
		{"prerm 1", ""},
		{"postinst configure", start},
		{"postinst configure 1.0", ""},
		{"postinst 1", start},
		{"postinst 2", ""},
		{"postinst abort-remove", ""},
		{"postrm remove", ""},
		{"postrm upgrade 1.1", ""},
		{"postrm 0", ""},
		{"postrm 1", ""},
	} {
		words := strings.Fields(c.call)
		cmd := exec.Command("/bin/sh", append([]string{"../etc/package/" + words[0]}, words[1:]...)...)
		cmd.Env = []string{"PATH=" + stubs}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.says) || c.says == "" && len(out) > 0 {
			t.Errorf("%s: %v, says %q, want %q", c.call, err, out, c.says)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		if out, err := exec.Command("/bin/sh", "-n", "../etc/package/"+script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v, %s", script, err, out)
		}
		if text, err := os.ReadFile("../etc/package/" + script); err != nil || regexp.MustCompile(`(?m)^\s*priod `).Match(text) {
			t.Errorf("%s runs priod, or cannot be read: %v", script, err)
		}
	}
}

// Versions are compared as the tags were meant.
func TestPackageVersion(t *testing.T) {
	count, err := exec.Command("git", "rev-list", "--count", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	commits := strings.TrimSpace(string(count))
	for version, want := range map[string]string{
		"1.2.3":                         "1.2.3",
		"1.2.0-rc1":                     "1.2.0~rc1",
		"1.2.3+g0123456789ab":           "1.2.3+" + commits + ".g0123456789ab",
		"1.2.0-rc1+g0123456789ab":       "1.2.0~rc1+" + commits + ".g0123456789ab",
		"1.2.3+g0123456789ab.dirty":     "1.2.3+" + commits + ".g0123456789ab.dirty",
		"10.20.30-beta.2+g0123456789ab": "10.20.30~beta.2+" + commits + ".g0123456789ab",
	} {
		cmd := exec.Command("bash", "-c", `source <(sed -n '/^package_version()/,/^}/p' ../etc/package/dist.sh); package_version`)
		cmd.Env = append(os.Environ(), "VERSION="+version)
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %s, %v, want %s", version, out, err, want)
		}
	}
}

// The unit's sandbox holds, where systemd is there to judge it.
func TestUnitIsConfined(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here; tests/packages.sh has one")
	}
	for _, unit := range []string{"priod.service", "priod-value.service"} {
		if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", "../etc/systemd/"+unit).CombinedOutput(); err != nil {
			t.Errorf("%s: exposure above 2.0: %v\n%s", unit, err, out)
		}
	}
}

// Builds and packages are called by the release, with the revision between two of them.
func TestVersionOfBuilds(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make: the roots of other Slurms have none")
	}
	out, err := exec.Command("make", "-C", "..", "-s", "--no-print-directory", "version").Output()
	if err != nil {
		t.Fatalf("make version: %v", err)
	}
	if want := regexp.MustCompile(`^` + regexp.QuoteMeta(prio.Release) + `(\+g[0-9a-f]{12}(\.dirty)?)?\n$`); !want.Match(out) {
		t.Errorf("make version says %q, want %s", out, want)
	}
	cite, err := os.ReadFile("../CITATION.cff")
	if err != nil || !strings.Contains(string(cite), "\nversion: "+prio.Release+"\n") {
		t.Errorf("CITATION.cff does not name %s: %v", prio.Release, err)
	}
}
