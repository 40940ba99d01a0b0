package view

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/report"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
)

// markup is a name that nobody should see as anything but text.
const markup = "<script>alert(1)</script>\x1b[2J\"><img src=//evil.example/x onerror=alert(1)>"

var noonOfDay = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// failuresOfADay are so many of some hundred users.
func failuresOfADay(tb testing.TB, jobs int) *Failures {
	rules, err := retry.Default()
	if err != nil {
		tb.Fatal(err)
	}
	var all retry.Changes
	for i := range jobs {
		all.Failures = append(all.Failures, retry.Failure{
			Number: int64(i + 1), Job: slurmplug.Plain(uint32(i + 1)), User: fmt.Sprint(markup, i%300), Start: noonOfDay.Add(-time.Hour), End: noonOfDay, GPUs: 1 + i%8,
			Class: []string{"gpu", "memory", markup}[i%3], Fault: []string{fmt.Sprint("n", i%500)}, Nodes: []string{fmt.Sprint("n", i%500)}, Signature: "s", Advice: markup,
		})
	}
	set := retry.Settings{Rules: rules, Users: 3, Within: 24 * time.Hour}
	return OfFailures(noonOfDay.Add(-24*time.Hour), noonOfDay, &all, &set, 500)
}

// preemptionsOfADay are those of so many jobs, of which one in ten was evicted.
func preemptionsOfADay(jobs int) *Preemptions {
	stays, evictions := make([]store.JobTimes, jobs), []store.Eviction{}
	for i := range stays {
		submit := noonOfDay.Add(-time.Duration(i%80_000) * time.Second)
		class := []string{"te", "be", "be"}[i%3]
		start := submit.Add(time.Duration(i%600) * time.Second)
		stays[i] = store.JobTimes{Job: slurmplug.Plain(uint32(i + 1)), Tasks: 1, Class: class, Submit: submit, Ready: submit, Start: start, End: start.Add(time.Hour), Ran: time.Hour, Left: start.Add(time.Hour)}
		if class == "be" && i%10 == 1 {
			paid, took := float64(i%900), float64(i%40)
			evictions = append(evictions, store.Eviction{
				Victim: stays[i].Job, VictimUser: fmt.Sprint(markup, i%300), For: slurmplug.Plain(uint32(i)), ForUser: markup, State: "done", How: "exited", GPUs: 2, GraceS: 30,
				Purpose: []string{"te", "round", "gang"}[i/10%3], TookS: &took, Promised: 100, Paid: &paid, Recorded: start, Signalled: start, Left: start.Add(time.Minute), Ended: start.Add(time.Hour),
			})
		}
	}
	return OfPreemptions(noonOfDay.Add(-24*time.Hour), noonOfDay, stays, evictions)
}

// sizingOfADay is a snapshot of so many running jobs.
func sizingOfADay(tb testing.TB, jobs int) *Sizing {
	table, err := workload.Load("")
	if err != nil {
		tb.Fatal(err)
	}
	s := cluster.Snapshot{At: noonOfDay}
	for i := range jobs/4 + 1 {
		s.Nodes = append(s.Nodes, cluster.Node{Name: fmt.Sprint("n", i), Usable: true, GPUType: "a100", GPUs: 8, GPUsUsed: 3, CPUs: 32, CPUsUsed: 32, MemMB: 4000, MemUsedMB: 4000, Partitions: []string{"gpu"}})
	}
	for i := range jobs {
		s.Jobs = append(s.Jobs, cluster.Job{
			ID: slurmplug.Plain(uint32(i + 1)), User: markup, Name: markup, Partition: "gpu", State: cluster.Running, Nodes: 1, NodeList: fmt.Sprint("n", i/4), CPUs: 8, MemMB: 1000,
			Start: noonOfDay.Add(-time.Hour), TaskCount: 1,
		})
		if i%4 > 0 {
			s.Jobs[i].GPUs, s.Jobs[i].GPUType = 1, "a100"
		}
	}
	return OfSizing(&s, table, nil, nil)
}

// reportPages makes each page from a day's data of so many jobs.
func reportPages(tb testing.TB, jobs int) map[string]func() *report.Page {
	return map[string]func() *report.Page{
		"failures":    func() *report.Page { return failuresOfADay(tb, jobs).Page() },
		"preemptions": func() *report.Page { return preemptionsOfADay(jobs).Page() },
		"sizing":      func() *report.Page { return sizingOfADay(tb, jobs).Page() },
	}
}

var elsewhere = regexp.MustCompile(`(?i)\b(src|href|action)\s*=|@import|url\(`)

// Names stand in a page as text, nothing in it asks another host for anything, and of long
// tables it shows the first rows.
func TestReportPages(t *testing.T) {
	const jobs = 4 * 1001
	for name, page := range reportPages(t, jobs) {
		var b bytes.Buffer
		p := page()
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		out, _, drawn := strings.Cut(b.String(), "<script>/*! https://github.com/leeoniya/uPlot ") // what draws its figures, named by its policy
		if !drawn {
			t.Errorf("%s: nothing draws its figures", name)
		}
		out = strings.ReplaceAll(out, `<script type="application/json">`, "")
		if strings.Count(out, `<figure class="chart"`) != 1 || !strings.Contains(out, "&lt;script&gt;") {
			t.Errorf("%s: no plot, or no names", name)
		}
		for _, bad := range []string{"<script", "<img", "<iframe", "<link", "\x1b"} {
			if strings.Contains(out, bad) {
				t.Errorf("%s: the page has %q", name, bad)
			}
		}
		for tag := range strings.SplitSeq(out, "<") { // of elements, not of text
			if element, _, _ := strings.Cut(tag, ">"); elsewhere.MatchString(element) {
				t.Errorf("%s: <%s> asks for something", name, element)
			}
		}
		if rows := strings.Count(out, "<tr>"); rows > 1101*len(p.Tables) {
			t.Errorf("%s: %d rows", name, rows)
		}
		long := strings.Contains(out, "(the first 1000 of ")
		if long != (name != "preemptions") {
			t.Errorf("%s: a long table is cut short: %v", name, long)
		}
	}
}
