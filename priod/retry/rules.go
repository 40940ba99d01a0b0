package retry

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/BurntSushi/toml"

	"slurmprio/etc"
)

// Bounds of a file of rules.
const (
	maxFile    = 1 << 20
	maxRules   = 500
	maxPattern = 2000 // bytes
	maxTimes   = 20
)

// Class is what a failure means, and what is done about it.
type Class struct {
	Name       string
	Text       string // why, as a sentence without its end
	Advice     string // what its user can do; "" for none
	Machine    bool   // no fault of the job: requeued for --prio-retry infra, too
	Do         Do
	Times      int           // at most, for one job
	Wait       time.Duration // before the first time, doubled each time
	Then       Do            // after that: Hold or Nothing
	Suspect    bool          // failures of several users on one node make it suspect
	Free       bool          // does not count against Settings.PerJob
	SavesState bool          // only for jobs that save their state
}

// rule says of which class a run is. All conditions that it has must hold.
type rule struct {
	name     string
	class    *Class
	states   []string
	exit     []int
	signal   []int
	reason   *regexp.Regexp
	used     float64
	output   *regexp.Regexp
	words    [][]byte // of output: see wordsOf
	examples []string
	not      []string
	line     int // of the file
}

// Rules are those of a failures.toml.
type Rules struct {
	Classes map[string]*Class
	rules   []rule
}

// Default is etc/failures.toml, which is part of the program.
func Default() (*Rules, error) { return Parse("etc/failures.toml", etc.Failures) }

// Load reads the file at path, and Default when path is empty.
func Load(path string) (*Rules, error) {
	if path == "" {
		return Default()
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("failures: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("failures: %s: want a file of at most %d bytes", path, maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("failures: %w", err)
	}
	return Parse(path, string(text))
}

// file is failures.toml as TOML sees it.
type file struct {
	Class map[string]classText `toml:"class"`
	Rule  []ruleText           `toml:"rule"`
}

type classText struct {
	Text    string `toml:"text"`
	Advice  string `toml:"advice"`
	Machine bool   `toml:"machine"`
	Do      string `toml:"do"`
	Times   int    `toml:"times"`
	Wait    string `toml:"wait"`
	Then    string `toml:"then"`
	Suspect bool   `toml:"suspect"`
	Free    bool   `toml:"free"`
	Saves   bool   `toml:"saves"`
}

type ruleText struct {
	Name     string   `toml:"name"`
	Class    string   `toml:"class"`
	States   []string `toml:"states"`
	Exit     []int    `toml:"exit"`
	Signal   []int    `toml:"signal"`
	Reason   string   `toml:"reason"`
	Used     float64  `toml:"used"`
	Output   string   `toml:"output"`
	Examples []string `toml:"examples"`
	Not      []string `toml:"not"`
}

// Parse reads the text of a failures.toml, and tries each rule on its examples. Errors name the file, the line and the rule or class.
func Parse(name, text string) (*Rules, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: want at most %d bytes", name, maxFile)
	}
	var f file
	meta, err := toml.Decode(text, &f)
	if err != nil {
		var at toml.ParseError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("%s:%d: %.80s: %s", name, at.Position.Line, at.LastKey, at.Message)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("%s: unknown key %.80q", name, unknown[0].String())
	}
	r := &Rules{Classes: map[string]*Class{}}
	for _, key := range slices.Sorted(maps.Keys(f.Class)) {
		c, err := f.Class[key].class(key)
		if err != nil {
			return nil, fmt.Errorf("%s: class.%.80s: %w", name, key, err)
		}
		r.Classes[key] = c
	}
	if n := len(f.Rule); n == 0 || n > maxRules {
		return nil, fmt.Errorf("%s: %d rules: want from 1 to %d", name, n, maxRules)
	}
	lines := headerLines(text)
	for i := range f.Rule {
		line := 0
		if i < len(lines) {
			line = lines[i]
		}
		one, err := f.Rule[i].rule(r.Classes)
		one.line = line
		if err == nil && slices.ContainsFunc(r.rules, func(o rule) bool { return o.name == one.name }) {
			err = errors.New("the name stands twice")
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: rule %d (%.80q): %w", name, line, i+1, f.Rule[i].Name, err)
		}
		r.rules = append(r.rules, one)
	}
	if last := &r.rules[len(r.rules)-1]; !last.always() {
		return nil, fmt.Errorf("%s:%d: rule %q: the last rule must have no condition, for what no other one knows", name, last.line, last.name)
	}
	for i := range r.rules {
		if err := r.try(i); err != nil {
			return nil, fmt.Errorf("%s:%d: rule %q: %w", name, r.rules[i].line, r.rules[i].name, err)
		}
	}
	return r, nil
}

// headerLines are the lines on which rules begin.
func headerLines(text string) (lines []int) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if strings.HasPrefix(strings.TrimSpace(line), "[[rule]]") {
			lines = append(lines, n)
		}
	}
	return lines
}

var names = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

func (t classText) class(name string) (*Class, error) {
	c := &Class{
		Name: name, Text: t.Text, Advice: t.Advice, Machine: t.Machine, Do: Do(t.Do), Times: t.Times,
		Then: Do(cmp.Or(t.Then, string(Nothing))), Suspect: t.Suspect, Free: t.Free, SavesState: t.Saves,
	}
	var err error
	if t.Wait != "" {
		c.Wait, err = time.ParseDuration(t.Wait)
	}
	again := c.Do == Elsewhere || c.Do == Later
	switch {
	case !names.MatchString(name):
		return nil, errors.New("want a name of small letters, digits and '-', at most 40")
	case !printable(t.Text) || t.Text == "" || !printable(t.Advice):
		return nil, errors.New("text: want one printable line; advice: one or none")
	case !slices.Contains([]Do{Elsewhere, Later, Hold, Nothing}, c.Do):
		return nil, fmt.Errorf("do = %.40q: want elsewhere, later, hold or nothing", t.Do)
	case c.Then != Hold && c.Then != Nothing:
		return nil, fmt.Errorf("then = %.40q: want hold or nothing", t.Then)
	case err != nil || c.Wait < 0 || c.Wait > 24*time.Hour:
		return nil, fmt.Errorf("wait = %.40q: want a time such as 2m, at most 24h", t.Wait)
	case again && (c.Times < 1 || c.Times > maxTimes):
		return nil, fmt.Errorf("times = %d: want from 1 to %d", c.Times, maxTimes)
	case !again && (c.Times != 0 || t.Wait != "" || t.Then != ""):
		return nil, fmt.Errorf("times, wait and then say nothing beside do = %q", t.Do)
	}
	return c, nil
}

// finals are the final states of a run that failed.
var finals = []string{"FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "PREEMPTED"}

func (t *ruleText) rule(classes map[string]*Class) (r rule, err error) {
	r = rule{
		name: t.Name, class: classes[t.Class], states: t.States, exit: t.Exit, signal: t.Signal, used: t.Used,
		examples: t.Examples, not: t.Not,
	}
	within := func(all []int, most int) bool {
		return !slices.ContainsFunc(all, func(n int) bool { return n < 0 || n > most })
	}
	switch {
	case t.Name == "" || !printable(t.Name) || len(t.Name) > 60:
		return r, errors.New("name: want from 1 to 60 printable characters")
	case r.class == nil:
		return r, fmt.Errorf("class = %.80q: there is no [class.%.80s]", t.Class, t.Class)
	case slices.ContainsFunc(t.States, func(s string) bool { return !slices.Contains(finals, s) }):
		return r, fmt.Errorf("states: want some of %s", strings.Join(finals, ", "))
	case !within(t.Exit, 255) || slices.Contains(t.Exit, 0):
		return r, errors.New("exit: want numbers from 1 to 255")
	case !within(t.Signal, 64) || slices.Contains(t.Signal, 0):
		return r, errors.New("signal: want numbers from 1 to 64")
	case !(t.Used >= 0 && t.Used <= 10):
		return r, errors.New("used: want a part of the memory, from 0 to 10")
	case len(t.Examples) == 0:
		return r, errors.New("examples: want at least one")
	}
	if r.reason, err = pattern("reason", t.Reason); err != nil {
		return r, err
	}
	if r.output, err = pattern("output", t.Output); r.output != nil {
		r.words = wordsOf(r.output.String())
	}
	return r, err
}

// pattern compiles a regular expression. Go's take time in proportion to the text, whatever
// stands in them (RE2). ^ and $ are the ends of a line in any case: a pattern sees no more.
func pattern(key, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxPattern {
		return nil, fmt.Errorf("%s: %d bytes: want at most %d", key, len(text), maxPattern)
	}
	p, err := regexp.Compile("(?m)" + text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if p.MatchString("") {
		return nil, fmt.Errorf("%s: it matches where nothing stands", key)
	}
	return p, nil
}

// always reports whether a rule has no condition.
func (r *rule) always() bool {
	return len(r.states)+len(r.exit)+len(r.signal) == 0 && r.reason == nil && r.output == nil && r.used == 0
}

// try runs a rule against its examples.
func (r *Rules) try(i int) error {
	own := &r.rules[i]
	for _, text := range own.examples {
		run, err := example(text)
		if err != nil {
			return err
		}
		if found, _ := r.first(&run); found != own {
			return fmt.Errorf("the example %.80q belongs to rule %q", text, found.name)
		}
	}
	for _, text := range own.not {
		run, err := example(text)
		if err != nil {
			return err
		}
		t := linesOf(run.tail())
		if _, matches := own.match(&run, &t); matches {
			return fmt.Errorf("it matches %.80q, which it must not", text)
		}
	}
	return nil
}

var exampleHead = regexp.MustCompile(`^([A-Z_]+) (\d{1,3}):(\d{1,3})(?: reason=(\S+))?(?: used=([0-9.]+))?(?: \| |$)`)

// example reads an example of a rule: output of a job, or how it ended before a "|".
func example(text string) (Run, error) {
	run := Run{State: "FAILED", ExitCode: 1}
	head := exampleHead.FindStringSubmatch(text)
	if head == nil {
		run.Output = []byte(text)
		return run, nil
	}
	run.State, run.Reason = head[1], head[4]
	if !slices.Contains(finals, run.State) {
		return run, fmt.Errorf("example %.80q: %s is none of %s", text, run.State, strings.Join(finals, ", "))
	}
	run.ExitCode, _ = strconv.Atoi(head[2])
	run.Signal, _ = strconv.Atoi(head[3])
	if head[5] != "" {
		used, err := strconv.ParseFloat(head[5], 64)
		if err != nil {
			return run, fmt.Errorf("example %.80q: used: %w", text, err)
		}
		run.AskedMB, run.PeakMB = 10000, int64(math.Round(used*10000))
	}
	run.Output = []byte(text[len(head[0]):])
	return run, nil
}

func printable(s string) bool {
	return len(s) <= 400 && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
