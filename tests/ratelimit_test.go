package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"slurmprio/tests/alerts"
	"slurmprio/tests/lab"
)

// Under slurmctld's rate limit, in a long test at its defaults, an operator's priod keeps below it: it
// writes what it may, leaves the rest to later cycles and says why, and takes all of it
// back again. Slurm never has to tell it to back off, and nothing is lost.
func TestSlurmsRateLimit(t *testing.T) {
	longOnly(t)
	if os.Geteuid() != 0 {
		t.Skip("acting as other users needs root; make test as root runs this")
	}
	t.Parallel()
	n, rate, limit := rounds(90, 2000), rounds(4, 2), "rl_enable"
	if !long() {
		limit += fmt.Sprintf(",rl_refill_rate=%d", rate)
	}
	s := newSiteOn(t, lab.ForTest(t, lab.Options{ExtraConf: []string{"SlurmctldParameters=" + limit}}), "")
	patience := time.Duration(n) * 2 * time.Second
	for range s.lab.Nodes { // for longer than the test takes
		id, err := s.lab.Sbatch(t.Context(), "--output=/dev/null", "--gres=gpu:4", "--wrap=sleep 36000")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.lab.WaitJob(t.Context(), id, "RUNNING"); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for range n {
		id, err := s.lab.Sbatch(t.Context(), "--output=/dev/null", "--comment=prio:type=te&v=1", "--gres=gpu:1", "--time=5", "--wrap=sleep 600")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	s.eligible(n)
	before := s.levers()
	zeros := func() int {
		out := strings.TrimSpace(s.slurm("sprio", "--noheader", "--format=%S"))
		return strings.Count(" "+strings.Join(strings.Fields(out), " ")+" ", " 0")
	}
	address := freePort(t)
	s.become(lab.OperatorUser, fmt.Sprintf("%s[te_budget.user]\ngpus = 0\n[metrics]\nlisten = %q\n", quick, address))
	d := s.daemon()
	d.waitLog("started")
	m := scraper{d, address}
	var waited map[string]*dto.MetricFamily // what was scraped while writes waited
	s.within(patience, "all values", func() bool {
		if waited == nil && m.value("priod_postponed_writes{cause=rate-limit}") > 0 {
			waited = m.scrape()
		}
		return zeros() == 0
	})
	if got := s.order(); fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("the order is %v", got)
	}
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	_, told, status := s.priod("reset")
	if status != 0 {
		t.Errorf("reset: exit status %d", status)
	}
	if after := s.levers(); after != before {
		t.Errorf("reset leaves %d values of %d", n-zeros(), n)
	}
	log := d.log.String()
	if bad := "cycle failed"; strings.Contains(log, bad) || strings.Contains(log+told, "timed out") {
		t.Errorf("a cycle failed, or a command timed out:\n%s", told)
	}
	if strings.HasPrefix(s.slurm("scontrol", "--version"), "slurm-wlm 22.") {
		return // has no such limit
	}
	if waited == nil {
		t.Error("the metrics do not say that writes wait")
	} else {
		alerts.Run(t, alerts.Test{Of: []string{"PriodBackPressure"}, Series: alerts.Scraped(t, phase(30, waited, waited)), Firing: map[int][]string{5: nil, 29: {"PriodBackPressure"}}})
	}
	why := fmt.Sprintf("slurmctld's rate limit: an account may make 30 requests at once and %d more each second", rate)
	if !strings.Contains(log, "writes wait for later cycles") || !strings.Contains(log, why) {
		t.Error("the log does not say why writes wait")
	}
	if !strings.Contains(told, "values are settled, about ") || !strings.Contains(told, why) {
		t.Errorf("reset does not say why it takes its time: %q", told)
	}
	logs, err := filepath.Glob(filepath.Join(s.lab.Dir, "log", "slurmctld*"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if refused := strings.Count(string(text), "telling to back off"); refused > 0 {
			t.Errorf("Slurm told priod %d times to back off", refused)
		}
	}
}
