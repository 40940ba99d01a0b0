package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
)

// said checks that an error is the user's to mend, and one line that a terminal
// can bear.
func said(t *testing.T, err error) {
	t.Helper()
	var usage *usageError
	if text := err.Error(); !errors.As(err, &usage) || len(text) > 2000 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Fatalf("%q", err)
	}
}

// FuzzTag: whatever script, variable and comment hold, the job's comment is one
// valid tag and the user's own words, or nothing is submitted.
func FuzzTag(f *testing.F) {
	f.Add("train.sh", []byte("#!/bin/sh\n#PRIO --prio-type=te --prio-grace 5:00\n"), "prio-type", "be", "my own words")
	f.Add("", []byte("#PRIO --prio-workload='a b'\n"), "prio-speed", "a100:1,v100:.5", "prio:v=1 type=te")
	f.Add("s", []byte("#PRIO --prio-canary 10m\n"), "prio-canary", "no", "")
	f.Add("\x1b[2J", []byte("#PRIO --prio-type\x00\n#SBATCH --prio-type=te\n#PRIO x\x1b\n"), "prio-share", "\u202e", "\n\x1f")
	f.Add("s", []byte("#PRIO --prio-steps=1e300\n#PRIO\t--prio-share\n"), "prio-mem", "a:1x1-2x2", strings.Repeat("x", 1000))
	f.Add("s", []byte("#PRIO '--prio-\x1b=x\n#SBATCH hetjob\n#PRIO --prio-retry=always\n"), "prio-signal", "b:sigusr1", "prio:")
	f.Fuzz(func(t *testing.T, name string, text []byte, variable, value, comment string) {
		given, err := prio.FromScript((&script{name: name}).title(), text)
		if err != nil {
			said(t, err)
			return
		}
		variable, _, _ = strings.Cut(variable, "=") // a variable's name ends there
		key := "SBATCHWRAP_" + strings.ToUpper(strings.TrimPrefix(variable, "prio-"))
		fromEnv, strange := prio.FromEnvironment([]string{key + "=" + value, "HOME=/"})
		if len(fromEnv)+len(strange) > 1 || len(fromEnv) == 1 && fromEnv[0].Value != value {
			t.Fatalf("%s=%q: %+v, %q", key, value, fromEnv, strange)
		}
		_, tag, err := prio.Tag(append(given, fromEnv...))
		if err != nil {
			said(t, err)
			return
		}
		if _, err := jobtag.Parse(tag); err != nil {
			t.Fatalf("%q: %v", tag, err)
		}
		whole, err := withComment(tag, comment)
		if err != nil {
			said(t, err)
			return
		}
		if first, rest := jobtag.Split(whole); first != tag || rest != comment || len(whole) > maxComment {
			t.Fatalf("%q holds %q and %q", whole, first, rest)
		}
	})
}

// FuzzCommandLine: what is ours on the command line does not reach sbatch, all
// else does as it is, and a comment that is added is the last one.
func FuzzCommandLine(f *testing.F) {
	f.Add("--prio-type=te\n-N1\ntrain.sh\n--prio-type=be")
	f.Add("--prio-\x1b[2J\n--prio-type")
	f.Add("-N\n--prio-type=te\n--prio-print\n--\n--prio-type=te")
	f.Add("--comment=a\n:\n--prio-share\n--comment\nb\ns.sh")
	grammar := sbatch.AnyRelease()
	f.Fuzz(func(t *testing.T, joined string) {
		p := &parser{args: strings.Split(joined, "\n")}
		p.use(grammar)
		if p.err != nil {
			said(t, usagef("command line: %v", p.err))
			return
		}
		if p.cmd.Tangled {
			return
		}
		bare := p.cmd.Rewrite(nil)
		again := &parser{args: bare}
		again.use(grammar)
		if again.err != nil || len(prio.FromArguments(again.cmd)) != 0 || len(bare) > len(p.args) {
			t.Fatalf("%q becomes %q: %v", p.args, bare, again.err)
		}
		tagged := &parser{args: again.cmd.Rewrite([][]string{{"--comment=tag"}})}
		tagged.use(grammar)
		if tagged.err != nil || len(tagged.args) != len(bare)+1 {
			t.Fatalf("%q becomes %q: %v", bare, tagged.args, tagged.err)
		}
		first := tagged.cmd.Components[0].Found
		if f := first[len(first)-1]; f.Option.Name != "comment" || f.Value != "tag" {
			t.Fatalf("%q: %+v", tagged.args, f)
		}
	})
}

// FuzzDescriptor: only a path that names an open file is taken for one.
func FuzzDescriptor(f *testing.F) {
	for _, s := range []string{"/dev/fd/63", "/dev/stdin", "/proc/self/fd/0", "/dev/fd/-1", "/dev/fd/+3", "/dev/fd/../x", "/dev/fd/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		fd, ok := descriptor(path)
		if !ok || path == "/dev/stdin" {
			return
		}
		if dir, base := filepath.Split(path); fd < 0 || strings.Trim(base, "0123456789") != "" || dir != "/dev/fd/" && dir != "/proc/self/fd/" {
			t.Fatalf("%q is %d", path, fd)
		}
	})
}
