package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
)

// canaryVariable tells the script that it runs as a canary.
const canaryVariable = "SLURMPRIO_CANARY"

// canary is the short run of a job's script on one GPU that comes before the job.
// Its script has no directives that sbatch could read: all that counts of the
// full job's options, wherever they stand, stands on the command line, or still
// in the environment.
type canary struct {
	args    []string
	env     []string
	script  []byte // on standard input; nil: what the user gave, and sbatch says what is wrong with it
	cluster string // "" for the cluster's own
}

// tryFirst submits the canary, then the full job, which waits for it.
func tryFirst(p *parser, name string, script *script, said jobtag.Tag, tag string, lasts time.Duration) error {
	if err := changeable(p, script); err != nil {
		return err
	}
	jobs, err := p.resolve(script.text)
	var wrong *sbatch.ScriptError
	switch {
	case errors.As(err, &wrong):
		return usagef("%s, %v", script.title(), wrong)
	case p.err != nil:
		return usagef("command line: %v", p.err)
	case err != nil:
		return err
	case len(jobs) > 1:
		return usagef("--prio-canary cannot be combined with a heterogeneous job: submit a job of one of its parts first, and the whole with --dependency=afterok:ID")
	}
	job := jobs[0]
	// A job that a canary submits is none.
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, canaryVariable+"=") })
	c, err := newCanary(p.cmd, job, script, lasts, env)
	if err != nil {
		return err
	}
	add, err := behind(job, tag)
	if err != nil {
		return err
	}
	warnContradiction(said, job, script)
	full := func(id string) []string { return p.cmd.Rewrite([][]string{add(id)}) }
	if given(p.cmd, optionPrint) {
		return show(func(w io.Writer) {
			fmt.Fprintf(w, "canary: %s\n", sbatch.CommandLine(append([]string{p.path}, c.args...)))
			printPlan(w, tag, p.path, full("CANARY"))
		})
	}
	callPriod()
	id, err := c.submit(p.path, name)
	if err != nil {
		return err
	}
	if !given(p.cmd, "quiet") {
		fmt.Fprintf(os.Stderr, "sbatchwrap: canary job %s runs first, for %s at most\n", id, lasts)
	}
	if err = child(p.path, name, full(id), env, os.Stdin, os.Stdout); err != nil {
		c.cancel(p.path, id)
	}
	return err
}

// behind returns the options that have the full job wait for a canary with an id.
func behind(job sbatch.Job, tag string) (func(id string) []string, error) {
	var words []string
	if tag != "" {
		comment, err := withComment(tag, job.Set["comment"].Value)
		if err != nil {
			return nil, err
		}
		words = append(words, "--comment="+comment)
	}
	// Else the job waits for ever when the canary fails.
	if _, own := job.Set["kill-on-invalid-dep"]; !own {
		words = append(words, "--kill-on-invalid-dep=yes")
	}
	return func(id string) []string {
		after := "afterok:" + id
		if own := job.Set["dependency"].Value; own != "" {
			after += "," + own
		}
		return append(slices.Clip(words), "--dependency="+after)
	}, nil
}

// Options of a full job that its canary does without: they are about the shape of
// a larger job, about the end of its time limit, or about this submission.
var notForCanary = []string{"array", "comment", "consolidate-segments", "contiguous", "core-spec", "cores-per-socket", "distribution",
	"exclusive", "extra-node-info", "gpu-bind", "gpus-per-socket", "ignore-pbs", "job-name", "mincpus", "no-requeue", "nodes", "ntasks",
	"ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket", "ntasks-per-tres", "parsable", "quiet", "requeue", "segment", "signal",
	"sockets-per-node", "spread-job", "spread-segments", "switches", "thread-spec", "time", "time-min", "tres-bind", "use-min-nodes", "wrap"}

// newCanary makes the canary of a job.
func newCanary(cmd *sbatch.Command, job sbatch.Job, script *script, lasts time.Duration, env []string) (*canary, error) {
	if err := noCanary(cmd, job, script); err != nil {
		return nil, err
	}
	c := &canary{cluster: job.Set["clusters"].Value}
	_, isArray := job.Set["array"]
	for _, name := range slices.Sorted(maps.Keys(job.Set)) {
		s := job.Set[name]
		value, changed := one(name, s.Value, isArray)
		switch {
		case strings.HasPrefix(name, "prio-") || slices.Contains(notForCanary, name):
		case s.Source != sbatch.FromVariable || changed:
			// One that a variable sets, and that stays, sbatch reads there.
			c.args = append(c.args, sbatch.Found{Option: &sbatch.Option{Name: name}, Value: value, HasValue: s.HasValue}.Word())
		}
	}
	own, err := ownOptions(cmd, job, script, lasts)
	if err != nil {
		return nil, err
	}
	c.args = append(c.args, own...)
	var gone []string
	for _, name := range notForCanary {
		gone = append(gone, sbatch.Variables(name)...)
	}
	c.env = slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(gone, name)
	})
	text := script.text
	if wrap, ok := cmd.Last("wrap"); ok {
		text = []byte("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + wrap + "\n")
	}
	if text == nil {
		c.args = append(c.args, cmd.Script...)
		return c, nil
	}
	c.script = limited(text, lasts)
	c.args = append(c.args, "/dev/stdin")
	if len(cmd.Script) > 0 {
		c.args = append(c.args, cmd.Script[1:]...)
	}
	return c, nil
}

// launch is how much more time Slurm gives the canary than it needs, for a prolog
// and the like: it ends by itself.
const launch = 2 * time.Minute

// ownOptions are those that make one short task on one node.
func ownOptions(cmd *sbatch.Command, job sbatch.Job, script *script, lasts time.Duration) ([]string, error) {
	tag, err := jobtag.Encode(jobtag.Tag{Type: "te"})
	if err != nil {
		return nil, err
	}
	_, words := jobtag.Split(job.Set["comment"].Value) // without a tag written by hand
	comment, err := withComment(tag, words)
	if err != nil {
		return nil, err
	}
	name := "sbatch"
	if _, wrapped := cmd.Last("wrap"); wrapped {
		name = "wrap"
	} else if script.name != "" {
		name = filepath.Base(script.name)
	}
	if s, ok := job.Set["job-name"]; ok {
		name = s.Value
	}
	after := job.Set["dependency"].Value
	if !strings.Contains(strings.ToLower(after), "singleton") { // which goes by the name
		name += "-canary"
	}
	own := []string{"--comment=" + comment, "--ignore-pbs", "--job-name=" + name, "--nodes=1", "--ntasks=1", "--parsable",
		fmt.Sprintf("--time=%d", (lasts+launch+time.Minute-1)/time.Minute)}
	if s, ok := job.Set["array"]; ok {
		own = append(own, "--array="+firstIndex.FindStringSubmatch(s.Value)[1])
	}
	if s := job.Set["exclusive"]; s.Value == "user" || s.Value == "mcs" {
		own = append(own, "--exclusive="+s.Value)
	}
	if _, ok := job.Set["kill-on-invalid-dep"]; !ok && after != "" {
		own = append(own, "--kill-on-invalid-dep=yes")
	}
	if s, ok := job.Set["gpus-per-socket"]; ok {
		own = append(own, "--gpus-per-node="+oneGPU(s.Value))
	}
	switch job.Requeue {
	case sbatch.RequeueYes:
		own = append(own, "--requeue")
	case sbatch.RequeueNo:
		own = append(own, "--no-requeue")
	}
	return own, nil
}

// firstIndex of a job array.
var firstIndex = regexp.MustCompile(`^\[?([0-9]+)`)

// noCanary refuses jobs of which a canary could not be made, or would say nothing.
func noCanary(cmd *sbatch.Command, job sbatch.Job, script *script) error {
	if _, wrapped := cmd.Last("wrap"); wrapped && cmd.Script != nil {
		return usagef("--prio-canary: there is a script beside --wrap, and sbatch takes one of them")
	}
	if _, ok := job.Set["ignore-pbs"]; !ok {
		for _, magic := range []string{"#PBS", "#BSUB"} {
			if hasLine(script.text, magic) {
				return usagef("--prio-canary does not read %s lines (%s): write #SBATCH lines, or give --ignore-pbs", magic, script.title())
			}
		}
	}
	for _, magic := range []string{"#BB ", "#BB_", "#DW "} {
		if hasLine(script.text, magic) {
			return usagef("--prio-canary cannot be combined with burst buffers (a line %q in %s): the canary would have none", magic, script.title())
		}
	}
	has := func(set string) func(string) bool { return func(v string) bool { return strings.ContainsAny(v, set) } }
	always := func(string) bool { return true }
	for _, c := range []struct {
		name string
		bad  func(value string) bool
		why  string
	}{
		{"external", always, "a job without a script has nothing to try"},
		{"test-only", always, "nothing would be tried; on the command line it leaves the canary out"},
		{"wait", always, "sbatch would end with 0 for a job that was cancelled because its canary failed"},
		{"clusters", func(v string) bool { return strings.Contains(v, ",") || strings.EqualFold(v, "all") }, "both jobs have to be on one cluster: name one"},
		{"constraint", has("*"), "the canary has one node, and this counts nodes"},
		{"prefer", has("*"), "the canary has one node, and this counts nodes"},
		{"nodefile", always, "the canary has one node: name nodes to avoid, or a constraint"},
		{"nodelist", has(",[/"), "the canary has one node: name one, nodes to avoid, or a constraint"},
		{"dependency", has("?"), `the job has to wait for the canary and for one of others, and Slurm knows either "and" or "or"`},
		{"export-file", func(v string) bool { return strings.Trim(v, "0123456789") == "" }, "an open file can be read once, and there are two jobs: name a file"},
		{"array", func(v string) bool { return !firstIndex.MatchString(v) }, "the canary runs the first index, and this begins with none"},
	} {
		if s, ok := job.Set[c.name]; ok && c.bad(s.Value) {
			return usagef("--prio-canary cannot be combined with %s: %s (--prio-canary=no leaves the canary out)", script.place(c.name, job), c.why)
		}
	}
	return nil
}

func hasLine(text []byte, prefix string) bool {
	return bytes.HasPrefix(text, []byte(prefix)) || bytes.Contains(text, []byte("\n"+prefix))
}

// one makes of an option's value that of the canary, which has one task and one GPU.
func one(name, value string, isArray bool) (_ string, changed bool) {
	was := value
	switch name {
	case "gpus", "gpus-per-node", "gpus-per-task":
		value = oneGPU(value)
	case "gres", "tres-per-task":
		var items []string
		seen := false
		for item := range strings.SplitSeq(value, ",") {
			if asks, typed := gpus(name, item); asks || typed {
				if seen {
					continue
				}
				seen, item = true, oneGPU(item)
			}
			items = append(items, item)
		}
		value = strings.Join(items, ",")
	case "ntasks-per-node":
		value = "1"
	case "output", "error":
		value = ownFile(value, isArray)
	}
	return value, value != was
}

// oneGPU replaces the number of GPUs by 1, in any of the forms "2", "a100:2",
// "gpu:a100:2", "gres/gpu:a100=2". Of several types the first one counts.
func oneGPU(value string) string {
	item, _, _ := strings.Cut(value, ",")
	at := strings.LastIndexAny(item, ":=") + 1
	switch count := item[at:]; {
	case strings.Trim(count, "0") == "": // none
		return item
	case isCount(count):
		return item[:at] + "1"
	}
	return item + ":1" // a bare name
}

// ownFile is the file to which the canary writes: not the full job's. isArray tells
// whether %A is a number of its own.
func ownFile(pattern string, isArray bool) string {
	if strings.HasPrefix(pattern, "/dev/") || strings.EqualFold(pattern, "none") {
		return pattern
	}
	if !strings.Contains(pattern, `\`) { // with which Slurm takes the name as it is
		for _, word := range percent.FindAllString(pattern, -1) {
			switch letter := word[len(word)-1]; {
			case letter == 'j' || letter == 'J', letter == 'A' && isArray:
				return pattern
			}
		}
	}
	return pattern + ".canary"
}

var percent = regexp.MustCompile(`%[0-9]*[A-Za-z%]`)

// limited is a script that runs another one, text, for so long at most and then
// ends with 0: were Slurm to end it, the state TIMEOUT would fail an afterok. The
// interpreter is run as the kernel would, so that /tmp may be mounted noexec. What
// is left running goes with the job. A text that is no script is left to sbatch.
func limited(text []byte, lasts time.Duration) []byte {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	interpreter, ok := bytes.CutPrefix(first, []byte("#!"))
	line := strings.Trim(string(interpreter), " \t")
	if !ok || line == "" {
		return text
	}
	run := quoted(line)
	if at := strings.IndexAny(line, " \t"); at > 0 { // one argument, with blanks in it
		run = quoted(line[:at]) + " " + quoted(strings.Trim(line[at:], " \t"))
	}
	head := fmt.Sprintf(canaryHead, int64(lasts/time.Second), run)
	head = strings.Replace(head, "HEAD", fmt.Sprint(strings.Count(head, "\n")+1), 1)
	return append([]byte(head), text...)
}

// KILL gives the script no chance to requeue itself, as some do on TERM.
const canaryHead = `#!/bin/sh
# The canary of a job, by sbatchwrap --prio-canary: runs the script below.
lasts=%d
export ` + canaryVariable + `=1
dir=$(mktemp -d) || exit
trap 'rm -rf "$dir"' EXIT
tail -n +HEAD "$0" >"$dir/slurm_script" && chmod 700 "$dir/slurm_script" || exit
began=$(date +%%s)
timeout --foreground -s KILL "$lasts" %s "$dir/slurm_script" "$@"
status=$?
if [ $(($(date +%%s) - began)) -ge "$lasts" ]; then
  echo "sbatchwrap: the canary lived for $lasts s: the full job may start" >&2
  status=0
fi
exit $status
# The script:
`

// quoted is one word for sh.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// submit submits the canary and returns its id.
func (c *canary) submit(path, name string) (id string, err error) {
	stdin := os.Stdin
	if c.script != nil {
		if stdin, err = unlinkedFile(c.script); err != nil {
			return "", err
		}
		defer stdin.Close()
	}
	var out bytes.Buffer
	if err := child(path, name, c.args, c.env, stdin, &out); err != nil {
		return "", err
	}
	// A site's own sbatch may say more.
	m := parsable.FindStringSubmatch(out.String())
	if m == nil {
		return "", fmt.Errorf("sbatch did not say the canary's job id, but %s: the full job was not submitted", prio.Quote(out.String()))
	}
	return m[1], nil
}

var parsable = regexp.MustCompile(`(?m)^([0-9]+)(?:;.*)?$`)

// cancel cancels a canary whose full job was refused.
func (c *canary) cancel(path, id string) {
	args := []string{id}
	if c.cluster != "" {
		args = []string{"--clusters=" + c.cluster, id}
	}
	scancel := filepath.Join(filepath.Dir(path), "scancel")
	if !executable(scancel) {
		scancel = "scancel"
	}
	if out, err := exec.Command(scancel, args...).CombinedOutput(); err != nil {
		warn("the full job was not submitted, and its canary could not be cancelled (%v, %s): scancel %s", err, prio.Quote(string(out)), id)
		return
	}
	fmt.Fprintf(os.Stderr, "sbatchwrap: the full job was not submitted; canary job %s is cancelled\n", id)
}

// child runs sbatch and returns its exit status as an exitCode, where that is not 0.
func child(path, name string, args, env []string, stdin *os.File, stdout io.Writer) error {
	cmd := exec.Command(path, args...)
	cmd.Args[0], cmd.Env = argv0(name), env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		if s := exit.Sys().(syscall.WaitStatus); s.Signaled() {
			return exitCode(128 + int(s.Signal()))
		}
		return exitCode(exit.ExitCode())
	case errors.Is(err, syscall.E2BIG):
		return usagef("the command line and the environment are longer than the system allows")
	case err != nil:
		return fmt.Errorf("%s: %w", prio.Quote(path), err)
	}
	return nil
}
