package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
	"slurmprio/slurmplug/wake"
)

// The options that ask something of the wrapper itself: command line only.
const (
	optionHelp    = "prio-help"
	optionPrint   = "prio-print"
	optionVersion = "prio-version"
)

// maxComment is Slurm's limit in bytes (_test_strlen in src/slurmctld/job_mgr.c).
const maxComment = 1024

// run carries out one call. Where the real sbatch takes over it does not return.
func run(name string, args []string) error {
	real, notFound := findSbatch()
	if notFound == nil {
		notFound = guard(real)
	}
	p := &parser{path: real, args: args}
	p.use(sbatch.AnyRelease())
	if errors.Is(p.err, sbatch.ErrInstalled) && notFound == nil {
		if err := p.ask(); err != nil {
			return err
		}
	}
	if given(p.cmd, optionHelp) {
		return show(printHelp)
	}
	if given(p.cmd, optionVersion) {
		return show(func(w io.Writer) { fmt.Fprintln(w, "sbatchwrap", prio.Version(version)) })
	}
	if notFound != nil {
		return notFound
	}
	if p.err != nil {
		return refused(p, name)
	}
	switch firstOf(p.cmd, "help", "usage", "version") {
	case "help":
		return helpOfBoth(real, name, p.cmd.Rewrite(nil))
	case "usage", "version":
		return become(real, name, p.cmd.Rewrite(nil))
	}

	script, err := readScript(p.cmd)
	if err != nil {
		return err
	}
	options, err := prio.FromScript(script.title(), script.text)
	if err != nil {
		return err
	}
	fromEnv, strange := prio.FromEnvironment(os.Environ())
	for _, v := range strange {
		warn("%s is no variable of sbatchwrap (see sbatchwrap --prio-help)", prio.Quote(v))
	}
	options = slices.Concat(options, fromEnv, prio.FromArguments(p.cmd))
	final, tag, said := p.cmd.Rewrite(nil), "", jobtag.Tag{}
	if len(options) > 0 {
		if said, tag, err = prio.Tag(options); err != nil {
			return err
		}
	}
	if tag != "" {
		if final, err = tagged(p, script, said, tag); err != nil {
			return err
		}
	}
	if given(p.cmd, optionPrint) {
		return show(func(w io.Writer) { printPlan(w, tag, real, final) })
	}
	if said.Type == "te" {
		callPriod()
	}
	return become(real, name, final)
}

// callPriod tells priod that a TE job is on its way. The call goes out ahead of
// the job, because this process becomes sbatch; priod waits for it a little.
func callPriod() {
	for _, word := range strings.Fields(cmp.Or(os.Getenv(prio.WakeVariable), wake.Default)) {
		if a, err := wake.Parse(word); err == nil {
			a.Send()
		}
	}
}

// tagged returns the command line with the tag in the comment of every job, and
// with a begin time where the site wants one.
func tagged(p *parser, script *script, said jobtag.Tag, tag string) (final []string, err error) {
	if err := changeable(p, script); err != nil {
		return nil, err
	}
	var add [][]string
	jobs, err := p.resolve(script.text)
	refused := p.err != nil || errors.As(err, new(*sbatch.ScriptError)) // a word or a directive: sbatch will say so
	if err != nil && !refused {
		return nil, err
	}
	for _, job := range jobs {
		comment, err := withComment(tag, job.Set["comment"].Value)
		if err != nil {
			return nil, err
		}
		add = append(add, []string{"--comment=" + comment})
	}
	if refused {
		for len(add) < len(p.cmd.Components) {
			add = append(add, []string{"--comment=" + tag})
		}
		return p.cmd.Rewrite(add), nil
	}
	warnContradiction(said, jobs[0], script)
	if waits(said, jobs) {
		add[0] = append(add[0], holdBack()...)
	}
	return p.cmd.Rewrite(add), nil
}

// changeable reports whether the submission can be read and added to.
func changeable(p *parser, script *script) error {
	switch {
	case script.once:
		return usagef("%s is a named pipe, and both sbatchwrap and sbatch have to read it: give the script on standard input or as a file", script.title())
	case p.cmd.Tangled:
		return usagef("a \":\" on the command line is the value of an option or stands behind \"--\", and sbatch takes it for a separator as well: write it as --OPTION=:")
	}
	return nil
}

// withComment puts the tag in front of the user's own comment.
func withComment(tag, comment string) (string, error) {
	if before, _ := jobtag.Split(comment); before != "" {
		return "", usagef("the job's comment already begins with a tag, %s: drop that word or the --prio-* options", prio.Quote(before))
	}
	if comment == "" {
		return tag, nil
	}
	if n := len(tag) + 1 + len(comment); n > maxComment {
		return "", usagef("tag and comment are %d bytes, and Slurm keeps %d: shorten the comment by %d", n, maxComment, n-maxComment)
	}
	return tag + " " + comment, nil
}

func warn(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "sbatchwrap: warning: "+format+"\n", args...)
}

// warnContradiction tells of a job that asks for what it forbids. It is no
// error: the user may know why.
func warnContradiction(tag jobtag.Tag, job sbatch.Job, script *script) {
	if job.Requeue != sbatch.RequeueNo {
		return
	}
	by := script.place("no-requeue", job)
	if tag.Type == "be" {
		warn("%s keeps a be job from being requeued, so it is never stopped to make room either", by)
	}
	if tag.Retry == "infra" || tag.Retry == "always" {
		warn("--prio-retry %s asks for a requeue, which %s forbids", tag.Retry, by)
	}
}

// place says where an option of the job stands.
func (s *script) place(name string, job sbatch.Job) string {
	switch set := job.Set[name]; set.Source {
	case sbatch.FromVariable:
		return set.Variable
	case sbatch.FromArgs:
		return "--" + name
	default:
		return fmt.Sprintf("--%s (%s, line %d)", name, s.title(), set.Line)
	}
}

// refused becomes sbatch for a command line that sbatch refuses, so that the
// error is sbatch's own. What is said goes along all the same: should sbatch
// know better, no job goes untagged without a word.
func refused(p *parser, name string) error {
	var wrong *sbatch.OptionError
	if errors.As(p.err, &wrong) {
		switch {
		case wrong.Option != nil && wrong.Option.Exact:
			return usagef("command line: %v", p.err)
		case strings.HasPrefix(wrong.Name, "--prio-"):
			return usagef("command line: unknown option %s: sbatchwrap --prio-help lists those that there are; they are spelled in full", prio.Quote(wrong.Name))
		}
	}
	if given(p.cmd, optionPrint) {
		return usagef("command line: %v", p.err)
	}
	options, _ := prio.FromEnvironment(os.Environ())
	options = append(options, prio.FromArguments(p.cmd)...)
	var add [][]string
	if len(options) > 0 {
		_, tag, err := prio.Tag(options)
		if err != nil {
			return err
		}
		add = [][]string{{"--comment=" + tag}}
	}
	return become(p.path, name, p.cmd.Rewrite(add))
}

// parser takes a command line apart with as little knowledge of the installed
// sbatch as it needs: asking takes longer than all the rest.
type parser struct {
	path    string // the real sbatch
	args    []string
	grammar *sbatch.Grammar
	cmd     *sbatch.Command
	err     error // what is wrong with the command line
}

func (p *parser) use(g *sbatch.Grammar) {
	p.grammar = g.With(prio.Exact(optionHelp, optionPrint, optionVersion)...)
	p.cmd, p.err = p.grammar.ParseArgs(p.args)
}

// ask parses anew with the installed sbatch's own grammar.
func (p *parser) ask() error {
	g, err := sbatch.Installed{Path: p.path}.Grammar()
	if err != nil {
		return err
	}
	p.use(g)
	return nil
}

func (p *parser) resolve(script []byte) ([]sbatch.Job, error) {
	jobs, err := p.grammar.Resolve(p.cmd, script, os.Environ())
	if !errors.Is(err, sbatch.ErrInstalled) {
		return jobs, err
	}
	if err := p.ask(); err != nil {
		return nil, err
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.grammar.Resolve(p.cmd, script, os.Environ())
}

func given(cmd *sbatch.Command, name string) bool {
	_, ok := cmd.Last(name)
	return ok
}

// firstOf returns which of the options comes first on the command line.
func firstOf(cmd *sbatch.Command, names ...string) string {
	for _, f := range cmd.First {
		if slices.Contains(names, f.Option.Name) {
			return f.Option.Name
		}
	}
	return ""
}
