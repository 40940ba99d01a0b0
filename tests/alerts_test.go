package tests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"slurmprio/tests/alerts"
	"slurmprio/tests/lab"
)

// alarm is a state in which priod writes nothing, falls behind or works in part, on a real
// Slurm.
type alarm struct {
	name     string
	alert    string
	series   string // shows the state, while it is above level
	level    float64
	settings string // of priod.toml, while it lasts
	root     bool
	begin    func(*alarmed)
	end      func(*alarmed)
	counts   bool // series is a counter: it grows once
	sick     bool // /health turns red
	start    bool // shows when the daemon starts
	long     bool // make test-long alone runs it
}

// alarmed is a daemon in such a state.
type alarmed struct {
	*harmed
	first string   // a TE job that waits
	big   []string // jobs whose records fill a disk
	last  string   // settings that are in force
}

var alarms = []alarm{
	{name: "paused", alert: "PriodPaused", series: "priod_blocked{reason=paused}",
		begin: func(h *alarmed) { h.must("pause", "--why", "a test") }, end: func(h *alarmed) { h.must("resume") }},
	{name: "slurmctld hangs", alert: "PriodCannotReadSlurm", series: "priod_blocked{reason=slurm-silent}", sick: true,
		begin: func(h *alarmed) { h.do(h.lab.Pause("slurmctld")) }, end: func(h *alarmed) { h.do(h.lab.Continue("slurmctld")) }},
	{name: "a summary in squeue's output", long: true, alert: "PriodCannotReadSlurm", series: "priod_blocked{reason=slurm-doubtful}", sick: true,
		begin: func(h *alarmed) {
			h.strange(map[string]string{"squeue": `case "$1" in --version|--help*) ;; *) $real "$@" && echo '12 jobs'; exit;; esac`})
		}},
	{name: "a Slurm that was not tried", long: true, alert: "PriodSlurmVersion", series: "priod_blocked{reason=slurm-version}",
		begin: func(h *alarmed) { h.strange(says("27.05.1")) }},
	{name: "the state folder is away", long: true, alert: "PriodCannotRecord", series: "priod_blocked{reason=folder-gone}", sick: true,
		begin: func(h *alarmed) { h.do(os.Rename(h.state, h.state+".away")) }, end: func(h *alarmed) { h.do(os.Rename(h.state+".away", h.state)) }},
	{name: "the state folder is read-only", long: true, alert: "PriodCannotRecord", series: "priod_blocked{reason=read-only}", sick: true, root: true,
		begin: func(h *alarmed) {
			h.do(syscall.Mount(h.state, h.state, "", syscall.MS_BIND, ""))
			h.do(syscall.Mount("", h.state, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			h.trials(1)
		}, end: func(h *alarmed) { h.do(syscall.Unmount(h.state, syscall.MNT_DETACH)) }},
	{name: "the disk is full", alert: "PriodCannotRecord", series: "priod_blocked{reason=disk-full}", sick: true, root: true,
		begin: func(h *alarmed) {
			if err := os.WriteFile(filepath.Join(h.mount, "ballast"), make([]byte, 64<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
				h.Fatalf("the disk is not full: %v", err)
			}
			h.big = h.scattered()
		}, end: func(h *alarmed) {
			h.do(os.Remove(filepath.Join(h.mount, "ballast")))
			h.slurm("scancel", h.big...)
		}},
	{name: "slurmdbd is down", long: true, alert: "PriodAccountingUnread", series: "priod_accounting_unread{read=runs}", start: true,
		begin: func(h *alarmed) { h.do(h.lab.Stop(h.Context(), "slurmdbd")) }, end: func(h *alarmed) { h.do(h.lab.StartDaemon(h.Context(), "slurmdbd")) }},
	{name: "a read that takes long", long: true, alert: "PriodFallsBehind", series: "priod_poll_period_seconds", level: 120,
		begin: func(h *alarmed) {
			h.strange(map[string]string{"squeue": `case "$1" in --version|--help*) ;; *) sleep 13;; esac`})
		}},
	{name: "the limit of writes", alert: "PriodBackPressure", series: "priod_notes{note=writes-per-cycle}", settings: "[limits]\nwrites_per_cycle = 1\n",
		begin: func(h *alarmed) { h.trials(12) }},
	{name: "a value of somebody else", alert: "PriodJobsLeftAlone", series: "priod_notes{note=foreign-value}",
		begin: func(h *alarmed) { h.slurm("scontrol", "update", "JobId="+h.first, "SiteFactor=12345") },
		end:   func(h *alarmed) { h.slurm("scontrol", "update", "JobId="+h.first, "SiteFactor=0") }},
	{name: "a configuration that is refused", long: true, alert: "PriodReloadFailed", series: "priod_reload_refused", settings: "[ranking]\nordr = \"owed\"\n"},
	{name: "locality without switches", long: true, alert: "PriodFeatureIdle", series: "priod_notes{note=no-switches}", settings: "[locality]\nenabled = true\n"},
	{name: "a QOS that is not there", long: true, alert: "PriodCheckFails", series: "priod_check_findings{level=fail}", settings: "[ranking]\nte_qos = [\"nosuch\"]\n"},
	{name: "the lock is deleted", long: true, alert: "PriodStateLost", series: "priod_state_losses_total", counts: true,
		begin: func(h *alarmed) { h.do(os.Remove(h.path("lock"))) }},
}

// set writes priod.toml, which the next tick reads.
func (h *alarmed) set(settings string) {
	h.Helper()
	h.last = settings
	h.configure(fmt.Sprintf("%s%s[metrics]\nlisten = %q\n%s", quick, roomy, h.address, settings))
}

// strange is that of the site, with the settings in force.
func (h *alarmed) strange(scripts map[string]string) {
	h.site.strange(scripts)
	h.set(h.last)
}

func (h *alarmed) trials(n int) {
	for range n {
		h.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	}
}

// On a real Slurm each state shows in the metrics, the alert's own expression holds for what was
// scraped, and no more when the state has ended.
func TestAlertsOnSlurm(t *testing.T) {
	alerts.Need(t)
	h := &alarmed{harmed: harmedOn(t, newOwnSite(t, ""))}
	h.hurry = "20s" // slurmctld hangs
	h.set("")
	h.fill()
	h.first = h.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	h.eligible(1)
	h.harmed.start()
	h.cycles(2)
	var of []string
	var tests []alerts.Test
	for _, a := range alarms {
		if a.alert != "PriodCheckFails" { // which some of the others bring with them
			of = append(of, a.alert)
		}
	}
	for i := range alarms {
		a := &alarms[i]
		if a.long && !long() {
			continue
		}
		if a.root && h.mount == "" {
			t.Logf("%s: needs root, to mount a small filesystem", a.name)
			continue
		}
		h.sub(t, a.name, func() { tests = append(tests, h.through(a, of)) })
	}
	alerts.Run(t, tests...)
}

// through lets a state begin, last and end. What was scraped then stands for half an hour
// before it, for as long as its alert wants, and for as long after it as that remembers.
func (h *alarmed) through(a *alarm, of []string) alerts.Test {
	h.Helper()
	level := a.level
	shows := func() bool { return h.value(a.series) > level }
	var seen map[string]*dto.MetricFamily
	well := func() bool {
		if code, _ := h.health(); code != 200 || !a.counts && shows() {
			return false
		}
		seen = h.scrape()
		return nonePostponed(seen)
	}
	h.waitTicking("health", well)
	if a.counts {
		level = h.value(a.series)
	}
	before := seen
	if a.settings != "" {
		h.set(a.settings)
	}
	if a.begin != nil {
		if a.settings != "" { // no cycle with the settings before them sees what begins
			h.cycles(2)
		}
		a.begin(h)
	}
	if a.start {
		h.harmed.start()
	}
	h.wait(a.series, func() bool {
		h.tick()
		code, _ := h.health()
		return shows() && (code == 503) == a.sick
	})
	during := h.scrape()
	if a.end != nil {
		a.end(h)
	}
	h.binDir = ""
	h.set("")
	if a.start {
		h.harmed.start()
	}
	h.wait("the end of it", func() bool { h.tick(); return well() })
	after := seen

	lasts := 80
	if a.alert == "PriodPaused" {
		lasts = 380
	}
	switch a.alert {
	case "PriodCheckFails":
		of = []string{a.alert}
	case "PriodAccountingUnread", "PriodFallsBehind":
	default: // a machine with much to do makes these true by itself: sacct runs out of time
		of = slices.DeleteFunc(slices.Clone(of), func(alert string) bool {
			return alert == "PriodAccountingUnread" || alert == "PriodFallsBehind" ||
				alert == "PriodFeatureIdle" && a.alert == "PriodCannotRecord" // the database may be full before the journal is: history is not recorded
		})
	}
	return alerts.Test{
		Name: a.name, Of: of, Series: alerts.Scraped(h, phase(30, before, before), phase(lasts, before, during), phase(90, after, after)),
		Firing: map[int][]string{29: nil, 30 + lasts - 1: {a.alert}, 30 + lasts + 80: nil},
	}
}

// nonePostponed reports whether the last cycle left no write to the next: after a full disk there are hundreds, for more than a
// second on a machine with much to do.
func nonePostponed(seen map[string]*dto.MetricFamily) bool {
	return !slices.ContainsFunc(seen["priod_postponed_writes"].GetMetric(), func(m *dto.Metric) bool { return m.GetGauge().GetValue() > 0 })
}

func phase(minutes int, first, last map[string]*dto.MetricFamily) alerts.Phase {
	return alerts.Phase{Minutes: minutes, First: first, Last: last}
}

// A priod that may not write says so, until somebody gives it the right.
func TestAlertsWithoutRights(t *testing.T) {
	longOnly(t)
	if os.Geteuid() != 0 {
		t.Skip("acting as other users needs root; make test as root runs this")
	}
	alerts.Need(t)
	s := newOwnSite(t, "")
	s.fill()
	for range 12 {
		s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	}
	s.eligible(12)
	address := freePort(t)
	s.become(lab.PlainUser, fmt.Sprintf("%s%s[metrics]\nlisten = %q\n", quick, roomy, address))
	d := s.daemon()
	d.waitLog("started")
	m := scraper{d, address}
	const refused = "priod_writes_total{status=refused}"
	m.waitValue("priod_unwritten_jobs{reason=refused}", atLeast(11))
	first := m.scrape()
	m.waitValue(refused, atLeast(m.value(refused)+12))
	last := m.scrape()
	s.slurm("sacctmgr", "-i", "modify", "user", lab.PlainUser, "set", "adminlevel=Operator")
	m.waitValue("priod_unwritten_jobs{reason=refused}", is(0))
	after := m.scrape()
	all := []string{"PriodEveryWriteRefused", "PriodWritesRefused"}
	alerts.Run(t, alerts.Test{
		Of: all, Series: alerts.Scraped(t, phase(60, first, last), phase(60, after, after)),
		Firing: map[int][]string{5: nil, 59: all, 119: nil},
	})
	d.stop()
}

// A cap on evictions shows while it keeps a TE job waiting, and is no more when it is raised.
func TestAlertOfACap(t *testing.T) {
	longOnly(t)
	alerts.Need(t)
	e := evictableOn(t, newOwnSite(t, ""))
	address := freePort(t)
	capped := func(perHour string) {
		e.configure(strings.Replace(evicting, "max_per_hour = 0", "max_per_hour = "+perHour, 1) + fmt.Sprintf("[metrics]\nlisten = %q\n", address))
	}
	capped("1")
	for _, name := range []string{"w1", "w2"} {
		e.worker(name, "t4:4", endless, 0, "save")
		e.begun(name)
	}
	d := e.daemon()
	d.waitLog("started")
	m := scraper{d, address}
	before := m.scrape()
	for range 2 {
		e.submit("--prio-type=te", "--gres=gpu:t4:4", "--time=5", "--wrap", "sleep 600")
	}
	m.waitValue("priod_claims_total{result=started}", is(1))
	m.waitValue("priod_limited_jobs{limit=per-hour}", is(1))
	during := m.scrape()
	capped("2")
	h := harmed{scraper: m}
	h.waitTicking("room for the other", func() bool { return h.value("priod_claims_total{result=started}") == 2 })
	m.waitValue("priod_limited_jobs{limit=per-hour}", is(0))
	after := m.scrape()
	alerts.Run(t, alerts.Test{
		Of:     []string{"PriodLimitReached", "PriodEvictionHangs", "PriodClaimsUnused", "PriodJobLost"},
		Series: alerts.Scraped(t, phase(30, before, before), phase(130, during, during), phase(20, after, after)),
		Firing: map[int][]string{29: nil, 159: {"PriodLimitReached"}, 179: nil},
	})
	d.stop()
}
