package tests

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// dividedSite is one file of tests/sites/divided on a real Slurm.
type dividedSite struct {
	*site
	configuration
	asked map[string]map[string]string // by job: its request as its user made it
}

// dividedSettings are those of a site that starts with the profile: trials by their time limit, and the others consent
// to all that balanced does; with short times.
const dividedSettings = quick + `
[speeds]
history = "1d"
[[class]]
name = "trials"
type = "te"
max_time = "10m"
[[consent]]
evict = true
gpu_type = true
size = true
switches = true
requeue = true
[preemption]
min_run = "0s"
min_gain = "0s"
urgency = 0.0
grace = "2s"
restart = "0s"
retry_after = "1s"
`

// options are those of configuration.options, with a gres.conf made of the nodes.
func (c configuration) divided(t *testing.T) lab.Options {
	o := c.options(t)
	o.GresConf = ""
	for i := range o.Nodes {
		n := &o.Nodes[i]
		f := strings.Split(n.Gres, ":")
		if len(f) != 3 {
			n.Gres = ""
			continue
		}
		gpus, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		o.GresConf += fmt.Sprintf("NodeName=%s[1-%d] Name=gpu Type=%s File=/dev/gpu[0-%d]\n", n.Prefix, n.Count, f[1], gpus-1)
	}
	return o
}

// Each divided site of tests/sites/divided, with the balanced profile and a site's consent: jobs are given a GPU type of
// their partitions, it is taken back when its nodes go, a trial of two GPUs gets room by an eviction, and reset leaves
// each request as its user made it, the list of partitions in its order too. The sites take turns on one slurmctld.
func TestDividedSites(t *testing.T) {
	files, err := filepath.Glob("sites/divided/*.txtar")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d divided sites, %v; want 12 at least", len(files), err)
	}
	longOnly(t)
	t.Parallel()
	var l *lab.Lab
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(sub *testing.T) {
			c := readConfiguration(sub, path)
			if o := c.divided(sub); l == nil {
				l = lab.ForTest(t, o)
			} else if err := l.Rebuild(sub.Context(), o); err != nil {
				sub.Fatal(err)
			}
			runDivided(sub, l, c)
		})
	}
}

func runDivided(t *testing.T, l *lab.Lab, c configuration) {
	s := &dividedSite{site: bareSite(t, l), configuration: c, asked: map[string]map[string]string{}}
	s.partitions, s.profile = []string{}, "balanced"
	s.configure(dividedSettings + c.parts["priod.toml"])
	defer func() {
		if t.Failed() {
			t.Logf("%s\n%s", s.slurm("squeue", "--all", "--format=%i %T %P %f %r %N"), s.slurm("scontrol", "--all", "show", "partition", "--oneliner"))
		}
	}()
	s.hold()
	asks := s.submitAsks()
	if out, errs, status := s.priod("check", "--all"); status > 1 || strings.Contains(out+errs, "cannot be trusted") || strings.Contains(out+errs, "panic") {
		t.Errorf("check: exit status %d\n%s%s", status, out, errs)
	}
	s.looked()
	for range 5 {
		s.cycle()
	}
	for _, a := range asks {
		s.isGiven(a)
	}
	s.takeBack(asks[0])
	trial := s.ask("--time=5 " + c.parts["trial"])
	d := s.daemon()
	if err := l.WaitJob(s.Context(), trial, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	d.stop()
	if !strings.Contains(d.log.String(), " for="+trial+" ") {
		t.Errorf("the trial runs, and no job left for it\n%s", s.slurm("squeue"))
	}
	s.must("reset")
	s.isAsAsked()
}

// hold has BE jobs take every GPU; they consented to nothing themselves.
func (s *dividedSite) hold() {
	s.Helper()
	for _, line := range s.lines("holds") {
		count, options, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			s.Fatalf("holds: %q is not COUNT OPTIONS", line)
		}
		for range n {
			s.ask("--time=60 " + options)
		}
	}
	for id := range s.asked {
		if err := s.lab.WaitJob(s.Context(), id, "RUNNING"); err != nil {
			s.Fatal(err)
		}
	}
}

// ask submits a job with these options, and keeps what it asks for.
func (s *dividedSite) ask(options string) (id string) {
	s.Helper()
	// The last of an option counts. No job starts before its request was read.
	id = s.submit(append(strings.Fields("--hold --time=45 --mem=100 "+options), "--wrap", "sleep 600")...)
	s.asked[id] = s.request(id)
	s.slurm("scontrol", "release", id)
	return id
}

// notAsked is what scontrol shows of a pending job beside its state and its request: its priority, times.
var notAsked = regexp.MustCompile(`^(Reason|Priority|Restarts|.*Time|LastSchedEval|Scheduler|SchedNodeList|NodeList|BatchHost|ExitCode|.*TRES|CpusPerTres|MemPerTres)$`)

// request is all that a pending job asks for, by scontrol's names, and its state.
func (s *dividedSite) request(id string) map[string]string {
	s.Helper()
	all := map[string]string{}
	for _, word := range strings.Fields(s.slurm("scontrol", "show", "job", "--oneliner", id)) {
		if key, value, is := strings.Cut(word, "="); is && (key == "TimeLimit" || !notAsked.MatchString(key)) {
			if least, most, _ := strings.Cut(value, "-"); key == "NumNodes" && least == most {
				value = least // as 24.11 and 26.05 show one after a requeue
			}
			all[key] = value
		}
	}
	return all
}

// dividedAsk is a job that leaves its GPU type open, and the types that it may be given; none where it is left alone.
type dividedAsk struct {
	id, line string
	types    []string
}

// submitAsks submits the jobs of the site's section "asks".
func (s *dividedSite) submitAsks() (asks []dividedAsk) {
	s.Helper()
	for _, line := range s.lines("asks") {
		if why, is := strings.CutPrefix(line, "# "); is {
			s.Log("not yet:", why)
			continue
		}
		options, types, is := strings.Cut(line, " => ")
		if !is {
			s.Fatalf("asks: %q is not OPTIONS => TYPES", line)
		}
		a := dividedAsk{line: line, types: strings.Fields(types)}
		if types == "none" {
			a.types = nil
		}
		a.id = s.ask("--prio-type=be --prio-speed=a100:4,v100:2,t4:1 --prio-cpu=a100:1x1-4x3,v100:1x1-4x3,t4:1x1-4x3 " + options)
		asks = append(asks, a)
	}
	return asks
}

// cycle is one of priod's that succeeds.
func (s *dividedSite) cycle() {
	s.Helper()
	if out, errs, status := s.priod("run", "--once"); status != 0 || strings.Contains(errs, "cannot be trusted") {
		s.Fatalf("run --once: exit status %d\n%s%s%s", status, out, errs, s.slurm("squeue", "--all", "--format=%i %T %P %f %r"))
	}
}

// given is the GPU type to which priod has bound a job, by a feature or by its partitions; "" for none, "?" for a
// request that its user did not make and that leaves no type alone.
func (s *dividedSite) given(a dividedAsk) string {
	s.Helper()
	now, own := s.request(a.id), s.asked[a.id]
	feature := func(r map[string]string) string { return strings.TrimSuffix(r["Features"], "(null)") }
	for _, t := range []string{"a100", "v100", "t4"} {
		if feature(now) != feature(own) && bound(feature(own), feature(now), t) {
			return t
		}
	}
	if now["Partition"] != own["Partition"] {
		types := map[string]bool{}
		for line := range strings.Lines(s.slurm("sinfo", "--noheader", "--Node", "--format=%N", "--partition="+now["Partition"])) {
			t, _, _ := strings.Cut(line, "-")
			types[t] = true
		}
		if len(types) == 1 {
			return slices.Collect(maps.Keys(types))[0]
		}
	}
	if feature(now) != feature(own) || now["Partition"] != own["Partition"] {
		return "?"
	}
	return ""
}

// isGiven fails unless a job has one of its types, or none where it is to be left alone. Of a job in several partitions
// Slurm says now what the one lacks and now what another, so it may take more cycles.
func (s *dividedSite) isGiven(a dividedAsk) {
	s.Helper()
	t := s.given(a)
	for range 20 {
		if t != "" || a.types == nil {
			break
		}
		s.sleep(200 * time.Millisecond)
		s.cycle()
		t = s.given(a)
	}
	if !slices.Contains(a.types, t) && (t != "" || a.types != nil) {
		out, _, _ := s.priod("explain", a.id)
		s.Errorf("%s: was given %q; asks for\n%v, its user for\n%v\n%s", a.line, t, s.request(a.id), s.asked[a.id], out)
	}
}

// takeBack has the type of a job go: its nodes are drained, or what the site's section "take" says. The job is given
// another one or none.
func (s *dividedSite) takeBack(a dividedAsk) {
	s.Helper()
	if a.types == nil || s.Failed() {
		return
	}
	gone := s.given(a)
	take, back := s.lines("take"), s.lines("back")
	if take == nil {
		var nodes []string
		for _, n := range s.lab.Nodes {
			if strings.HasPrefix(n, gone+"-") {
				nodes = append(nodes, n)
			}
		}
		which := "update NodeName=" + strings.Join(nodes, ",")
		take, back = []string{which + " State=DRAIN Reason=taken"}, []string{which + " State=RESUME"}
	}
	for _, line := range take {
		s.slurm("scontrol", strings.Fields(line)...)
	}
	for range 3 {
		s.cycle()
	}
	if t := s.given(a); t == gone || t == "?" {
		out, _, _ := s.priod("explain", a.id)
		s.Errorf("%s: %s is gone, and it was given %q\n%s", a.line, gone, t, out)
	}
	for _, line := range back {
		s.slurm("scontrol", strings.Fields(line)...)
	}
}

// isAsAsked fails unless each pending job asks for what its user made it ask for, and priod has left no value and no reservation.
func (s *dividedSite) isAsAsked() {
	s.Helper()
	pending := strings.Fields(s.slurm("squeue", "--all", "--noheader", "--states=PENDING", "--format=%A"))
	if len(pending) == 0 {
		s.Error("no job is left pending")
	}
	for _, id := range pending {
		own, now := s.asked[id], s.request(id)
		if now["JobState"] != "PENDING" {
			continue // it has started since
		}
		for key := range now {
			if now[key] != own[key] {
				s.Errorf("reset leaves job %s with %s=%s, its user asked for %q", id, key, now[key], own[key])
			}
		}
		for key := range own {
			if _, is := now[key]; !is {
				s.Errorf("reset leaves job %s without %s, its user asked for %q", id, key, own[key])
			}
		}
	}
	for line := range strings.Lines(s.slurm("sprio", "--noheader", "--format=%i %S")) {
		if f := strings.Fields(line); len(f) < 2 || f[1] != "0" {
			s.Errorf("reset leaves a SiteFactor: %s", line)
		}
	}
	if out, _ := s.lab.Run(s.Context(), "scontrol", "show", "reservation", "--oneliner"); strings.Contains(out, "ReservationName=") {
		s.Errorf("reset leaves %s", out)
	}
}
