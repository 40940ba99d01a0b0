package tests

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"slurmprio/priod/daemon"
	"slurmprio/tests/lab"
)

var update = flag.Bool("update", false, "write the tables of docs/reference/emergencies.md anew")

// looking are verbs that show something and change nothing; JOB is a job's number, SCRIPT a job script.
var looking = []string{
	"check", "queue", "explain JOB", "eta JOB", "queue --stored", "evictions", "report history", "report waits", "report usage", "workloads history --since 1d",
	"run --dry-run", "explain --victims JOB", "explain --victims", "eta SCRIPT", "reset --dry-run",
}

// changing are those that change something, in the order in which they are tried: each begins without a pause, or ends one.
var changing = []string{"run --once", "pause --why emergency", "resume", "reset", "resume"}

// scene is a site with a daemon that reads Slurm only when it is told to.
type scene struct {
	*harmed
	job, script string
	big         []string
}

// emergency is something that happens, and what ends it.
type emergency struct {
	name       string // of its section of the page
	begin      func(*scene)
	end        func(*scene) // nil: nothing does
	failed     string       // the daemon's word for it, which the verbs wait for
	unrecorded bool         // they wait until history is not recorded
	config     string       // of the verbs, in the site's folder; "": the daemon's
	output     string       // where the verbs print to
	away       bool         // the verbs run on a host of another name
}

// said is what a verb told: the line that says what is wrong, or the first one, and its exit status.
type said struct {
	line   string
	status int
}

var emergencies = []emergency{
	{name: "slurmctld is down", failed: "slurm-silent",
		begin: func(s *scene) { s.do(s.lab.Stop(s.Context(), "slurmctld")) },
		end:   func(s *scene) { s.do(s.lab.StartDaemon(s.Context(), "slurmctld")) }},
	{name: "slurmctld hangs", failed: "slurm-silent",
		begin: func(s *scene) { s.do(s.lab.Pause("slurmctld")) },
		end:   func(s *scene) { s.do(s.lab.Continue("slurmctld")) }},
	{name: "slurmdbd is down",
		begin: func(s *scene) { s.do(s.lab.Stop(s.Context(), "slurmdbd")) },
		end:   func(s *scene) { s.do(s.lab.StartDaemon(s.Context(), "slurmdbd")) }},
	{name: "the daemon hangs",
		begin: func(s *scene) { s.do(s.cmd.Process.Signal(syscall.SIGSTOP)) },
		end:   func(s *scene) { s.do(s.cmd.Process.Signal(syscall.SIGCONT)) }},
	{name: "the state disk is full", failed: "disk-full",
		begin: func(s *scene) {
			s.big = s.scattered() // small rows find room
			if err := os.WriteFile(filepath.Join(s.mount, "ballast"), make([]byte, 64<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
				s.Fatalf("the disk is not full: %v", err)
			}
		},
		end: func(s *scene) {
			s.do(os.Remove(filepath.Join(s.mount, "ballast")))
			s.slurm("scancel", s.big...)
		}},
	{name: "the output is full", output: "/dev/full", begin: func(*scene) {}, end: func(*scene) {}},
	{name: "the database is locked", unrecorded: true,
		begin: func(s *scene) {
			db, err := sql.Open("sqlite3", "file:"+s.path("priod.db"))
			s.do(err)
			db.SetMaxOpenConns(1)
			_, err = db.Exec("BEGIN EXCLUSIVE")
			s.do(err)
			s.release = func() { db.Close() }
		},
		end: func(s *scene) { s.release() }},
	{name: "another state folder configured", config: "other.toml", begin: func(*scene) {}, end: func(*scene) {}},
	{name: "on another host", config: "elsewhere.toml", away: true, begin: func(*scene) {}, end: func(*scene) {}},
	{name: "the daemon is dead", begin: func(s *scene) { s.kill() }},
	{name: "the database is corrupt", begin: func(s *scene) { s.overwrite("priod.db") }}, // after priod run --once, which ended
}

// ask runs one verb.
func (s *scene) ask(e *emergency, verb string) said {
	config := s.config
	if e.config != "" {
		config = filepath.Join(s.dir, e.config)
	}
	args := strings.Fields(strings.NewReplacer("JOB", s.job, "SCRIPT", s.script).Replace(verb))
	cmd := s.command(args...)
	if e.away {
		cmd = s.client().Command(s.Context(), "unshare", append([]string{"--uts", "sh", "-c", `hostname login1 && exec "$@"`, "priod"}, cmd.Args...)...)
	}
	cmd.Env = append(cmd.Env, "PRIOD_CONFIG="+config)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if e.output != "" {
		f, err := os.OpenFile(e.output, os.O_WRONLY, 0)
		s.do(err)
		defer f.Close()
		cmd.Stdout = f
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Errorf("priod %s: %v", verb, err)
	}
	status := cmd.ProcessState.ExitCode()
	s.Logf("%s, priod %s: %d\n%s%s", e.name, verb, status, &out, &errs)
	return said{s.same(wrong(verb, out.String(), errs.String())), status}
}

// wrong is the line that says what is wrong, "" when none does: of check the first failure or warning, else the error, or
// how old it is; of a verb that changes something what it prints last.
func wrong(verb, out, errs string) string {
	first := func(text string) string { line, _, _ := strings.Cut(text, "\n"); return line }
	old := strings.HasPrefix(out, "as of ")
	switch worst := finding.FindString(out); {
	case worst != "" && verb == "check":
		return worst
	case old:
		return first(out)
	case errs != "":
		return first(errs)
	case slices.Contains(changing, verb) && verb != "run --once":
		return first(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
	}
	return ""
}

var finding = regexp.MustCompile(`(?m)^(FAIL|WARN) .*`)

// What differs from run to run, and what Slurm's commands say in each version.
var differing = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`(\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d`), "12:03:10"},
	{regexp.MustCompile(`(\d+[dhms]){1,2} ago`), "5m02s ago"},
	{regexp.MustCompile(`process \d+`), "process 4711"},
	{regexp.MustCompile(`(scontrol|squeue|sacct|sacctmgr|sinfo|sprio|sdiag) [^:]*: (exit status \d+|timed out).*?(?:\(connect failure\))?($|; |\)|: nothing)`), "SLURM-ERROR$3"},
	{regexp.MustCompile(`(\((disk-full)\): ).*`), "${1}..."},
	{regexp.MustCompile(`\.tmp-\d+`), ".tmp-1"},
	{regexp.MustCompile(`12:03:10\.\d+Z`), "12:03:10.123Z"},
	{regexp.MustCompile(`broken-[0-9TZ]+`), "broken-20260713T120310Z"},
	{regexp.MustCompile(`at HOST.*:\d+:`), "at HOST:6817:"},
	{regexp.MustCompile(` +`), " "},
}

// same replaces what differs from run to run.
func (s *scene) same(line string) string {
	host, err := os.Hostname()
	s.do(err)
	line = strings.NewReplacer(s.state, "/var/lib/priod", filepath.Join(s.dir, "other"), "/elsewhere", filepath.Join(s.dir, "elsewhere"), "/var/lib/priod", host, "HOST").Replace(line)
	line = regexp.MustCompile(`([Jj]ob|explain) `+s.job+`\b`).ReplaceAllString(line, "$1 JOBID")
	for _, d := range differing {
		line = d.is.ReplaceAllString(line, d.as)
	}
	return strings.TrimSpace(line)
}

// askAll asks several verbs at a time.
func (s *scene) askAll(e *emergency, verbs []string) map[string]said {
	all, turns := make(map[string]said, len(verbs)), make(chan struct{}, 4)
	var mu sync.Mutex
	var g sync.WaitGroup
	for _, verb := range verbs {
		g.Go(func() {
			turns <- struct{}{}
			answer := s.ask(e, verb)
			<-turns
			mu.Lock()
			defer mu.Unlock()
			all[verb] = answer
		})
	}
	g.Wait()
	return all
}

// answers are those of all verbs while an emergency lasts.
func (s *scene) answers(e *emergency) map[string]said {
	e.begin(s)
	if e.failed != "" {
		s.turnUntil("fails so: "+e.failed, func(state *daemon.State) bool { return string(state.Blocked) == e.failed })
	}
	if e.unrecorded {
		s.turnUntil("notes it", func(state *daemon.State) bool { return state.Unrecorded != "" })
	}
	answers := s.askAll(e, looking)
	for _, verb := range changing {
		if verb == "run --once" && e.away { // a daemon's host is no matter of these pages
			continue
		}
		answers[verb] = s.ask(e, verb)
	}
	if e.end != nil {
		e.end(s)
		s.turnUntil("writes again", func(state *daemon.State) bool { // one gives way to reset
			return state.Blocked == "" && state.Unrecorded == "" && s.siteFactor(s.job) != "0"
		})
	}
	return answers
}

// tables have a row for the verbs that answer alike in every emergency, and then the exit status and line of each answer.
func tables(all []map[string]said) string {
	var list []said
	var order []string
	rows := map[string][]string{}
	for _, verb := range append(looking, changing...) {
		var cells strings.Builder
		for _, answers := range all {
			answer, asked := answers[verb]
			if !asked {
				cells.WriteString(" - |")
				continue
			}
			if answer != (said{}) && !slices.Contains(list, answer) {
				list = append(list, answer)
			}
			fmt.Fprintf(&cells, " %d |", slices.Index(list, answer)+1) // 0: nothing is wrong
		}
		name := "`priod " + strings.NewReplacer("JOB", "JOBID", "SCRIPT", "job.sh").Replace(verb) + "`"
		if rows[cells.String()] == nil {
			order = append(order, cells.String())
		}
		if !slices.Contains(rows[cells.String()], name) {
			rows[cells.String()] = append(rows[cells.String()], name)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| |", answersHeading)
	for i := range emergencies {
		fmt.Fprintf(&b, " %s |", emergencies[i].name)
	}
	fmt.Fprintf(&b, "\n|%s\n", strings.Repeat(" --- |", len(emergencies)+1))
	for _, cells := range order {
		fmt.Fprintf(&b, "| %s |%s\n", strings.Join(rows[cells], ", "), cells)
	}
	b.WriteString("\n")
	for i, answer := range list {
		fmt.Fprintf(&b, "%d. %d: <code>%s</code>\n", i+1, answer.status, inTable.Replace(answer.line)) // which is no command
	}
	return b.String()
}

// answersHeading is that of the part of the page that is written here, to its end.
const answersHeading = "## Which answer"

var inTable = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;")

// turnUntil has the daemon go through cycles until the word for how one ended is right.
func (s *scene) turnUntil(what string, right func(state *daemon.State) bool) {
	s.Helper()
	var words []string
	for range 20 {
		before := s.after(-1).Cycles
		s.tick()
		state := s.after(before)
		if right(&state) {
			return
		}
		words = append(words, string(state.Blocked)+state.Unrecorded)
	}
	s.Fatalf("no cycle %s: they ended with %q", what, words)
}

// after is what the daemon says of itself once it has gone through more cycles than so many.
func (s *scene) after(cycles int) (state daemon.State) {
	s.Helper()
	s.wait("the next cycle", func() bool {
		r, err := s.get("/health")
		if err != nil { // it is not up yet, or others ask, too
			return false
		}
		defer r.Body.Close()
		s.do(json.NewDecoder(r.Body).Decode(&state))
		return state.Cycles > cycles
	})
	return state
}

// Each verb in each emergency prints the line, and ends with the status, that docs/reference/emergencies.md has: one that
// shows something says first how old it is, one that changes something says whom it changes, or fails.
func TestEmergencies(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a small disk needs root; make test as root runs this")
	}
	t.Parallel()
	const page = "../docs/reference/emergencies.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t)
	var all []map[string]said
	for i := range emergencies {
		all = append(all, s.answers(&emergencies[i]))
	}
	before, _, _ := strings.Cut(string(text), answersHeading)
	if want, got := strings.TrimPrefix(string(text), before), tables(all); want != got && !*update {
		t.Errorf("the page has\n%s\nand this is\n%s", want, got)
	} else {
		text = []byte(before + got)
	}
	if *update {
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// newScene is a site whose daemon has ended a cycle, with a job that waits.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{harmed: harmedOn(t, newSiteOn(t, lab.ForTest(t, lab.Options{}), ""))}
	priodOf := func(dir, socket string) {
		s.configure(fmt.Sprintf("%s[wake]\nlisten = [%q]\n", rarely, "unix:"+filepath.Join(s.dir, socket, "wake")))
		text, err := os.ReadFile(s.config)
		s.do(err)
		s.do(os.WriteFile(filepath.Join(s.dir, dir+".toml"), []byte(strings.ReplaceAll(string(text), s.state, filepath.Join(s.dir, dir))), 0o644))
	}
	priodOf("elsewhere", "none")
	priodOf("other", "run")
	for _, dir := range []string{"run", "other"} {
		s.do(os.Mkdir(filepath.Join(s.dir, dir), 0o755))
	}
	s.script = filepath.Join(s.dir, "job.sh")
	s.do(os.WriteFile(s.script, []byte("#!/bin/sh\n#SBATCH --gres=gpu:1 --time=5\n"), 0o755))
	s.fill()
	s.job = s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	// A slurmctld 22.05 that ends while it waits for the job's index in accounting refuses each later update of the job.
	s.wait("accounting to know the job", func() bool {
		return strings.TrimSpace(s.slurm("sacct", "--noheader", "--allocations", "--format=JobID", "--jobs="+s.job)) == s.job
	})
	s.slurm("scontrol", "update", "JobId="+s.job, "AdminComment=known") // waits for the index
	s.start()
	s.address = "unix:" + filepath.Join(s.dir, "run", "explain")
	s.after(0)
	return s
}

// rarely is the configuration of a daemon that reads Slurm only when it is told to.
const rarely = "[cycle]\ninterval = \"1h\"\n"
