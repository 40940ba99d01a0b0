package alerts

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// blocked is a priod that fails for a reason from minute 30 to 60, and its health with it.
func blocked(reason string) map[string]string {
	return With(Up, "priod_healthy", "1x29 0x29 1x400", `priod_blocked{reason="`+reason+`"}`, "0x29 1x29 0x400")
}

// held is one that succeeds and writes nothing.
func held(reason string) map[string]string {
	return With(Up, `priod_blocked{reason="`+reason+`"}`, "0x29 1x400 0x400")
}

// Each alert fires alone when it should, not before, and no more when the state has ended.
var states = map[string][]Test{
	"PriodAbsent": {{Series: With(Up, `priod_build_info{version="1",goversion="go"}`, "1x29 _x29 1x60", "up", "1x29 0x29 1x60"),
		Firing: map[int][]string{29: nil, 33: nil, 45: {"PriodAbsent"}, 70: nil}}},
	"PriodCannotReadSlurm": {
		{Series: blocked("slurm-silent"), Firing: map[int][]string{29: nil, 35: {"PriodCannotReadSlurm"}, 58: {"PriodCannotReadSlurm"}, 62: nil}},
		{Name: "between two reasons", Series: With(blocked("slurm-silent"), `priod_blocked{reason="slurm-silent"}`, "0x29"+strings.Repeat(" 1 0", 15)+" 0x99", `priod_blocked{reason="slurm-doubtful"}`, "0x29"+strings.Repeat(" 0 1", 15)+" 0x99"),
			Firing: map[int][]string{29: nil, 40: {"PriodCannotReadSlurm"}, 62: nil}},
		{Name: "now and then, and healthy", Series: With(Up, `priod_blocked{reason="slurm-silent"}`, strings.Repeat("0 0 1 ", 40)), Firing: map[int][]string{50: nil, 100: nil}},
	},
	"PriodCannotRecord": {{Series: blocked("disk-full"), Firing: map[int][]string{29: nil, 35: {"PriodCannotRecord"}, 62: nil}}},
	"PriodUnhealthy": {
		{Series: blocked("other-error"), Firing: map[int][]string{29: nil, 35: {"PriodUnhealthy"}, 62: nil}},
		{Name: "no cycle has ended yet", Series: With(Up, "priod_healthy", "0x9 1x60"), Firing: map[int][]string{1: nil, 5: {"PriodUnhealthy"}, 20: nil}},
	},
	"PriodSlurmVersion": {{Series: held("slurm-version"), Firing: map[int][]string{29: nil, 38: nil, 45: {"PriodSlurmVersion"}, 440: nil}}},
	"PriodRival": {
		{Series: With(Up, "priod_rival", "0x29 1x29 0x60"), Firing: map[int][]string{29: nil, 31: {"PriodRival"}, 62: nil}},
		{Name: "paused by itself", Series: With(blocked("rival"), "priod_rival", "0x29 1x29 0x60"), Firing: map[int][]string{29: nil, 40: {"PriodRival"}, 62: nil}},
	},
	"PriodNoActiveHost": {{
		Series: map[string]string{
			`priod_build_info{instance="a",job="priod"}`: "1x99", `priod_build_info{instance="b",job="priod"}`: "1x99",
			`priod_standby{instance="a",job="priod"}`: "0x29 1x69", `priod_standby{instance="b",job="priod"}`: "1x59 0x39",
		},
		Firing: map[int][]string{29: nil, 32: nil, 40: {"PriodNoActiveHost"}, 65: nil},
	}},
	"PriodEveryWriteRefused": {
		{Series: With(Up, `priod_unwritten_jobs{reason="refused"}`, "0x29 500x29 0x60", `priod_writes_total{status="refused"}`, "0x90", `priod_writes_total{status="applied"}`, "0x30 7x200"),
			Of: []string{"PriodEveryWriteRefused"}, Firing: map[int][]string{29: nil, 58: nil, 62: nil}},
		{Name: "nothing else is written", Series: With(Up, `priod_unwritten_jobs{reason="refused"}`, "0x29 500x59 0x60", `priod_writes_total{status="applied"}`, "7x200"),
			Firing: map[int][]string{29: nil, 41: {"PriodEveryWriteRefused"}, 95: nil}},
	},
	"PriodPaused": {
		{Series: held("paused"), Firing: map[int][]string{29: nil, 300: nil, 410: {"PriodPaused"}, 440: nil}},
		{Series: held("other-process"), Firing: map[int][]string{300: nil, 410: {"PriodPaused"}, 440: nil}},
	},
	"PriodJobLost": {{Series: With(Up, `priod_lost_jobs_total{of="victim"}`, "0x29 1x200"), Firing: map[int][]string{29: nil, 31: {"PriodJobLost"}, 95: nil}}},
	"PriodEvictionHangs": {
		{Series: With(Up, `priod_eviction_overdue_seconds{step="signalled"}`, "0x29 0+60x19 0x60"), Firing: map[int][]string{35: nil, 45: {"PriodEvictionHangs"}, 55: nil}},
		{Series: With(Up, `priod_eviction_overdue_seconds{step="left"}`, "0x29 0+60x19 0x60"), Firing: map[int][]string{31: nil, 35: {"PriodEvictionHangs"}, 55: nil}},
	},
	"PriodClaimsUnused": {
		{Series: With(Up, `priod_claims_total{result="unused"}`, "0x29 6x600", `priod_claims_total{result="started"}`, "0x29 3x600"),
			Firing: map[int][]string{29: nil, 35: {"PriodClaimsUnused"}, 420: nil}},
		{Name: "few of many", Series: With(Up, `priod_claims_total{result="unused"}`, "0x29 6x600", `priod_claims_total{result="started"}`, "0x29 90x600"),
			Firing: map[int][]string{35: nil}},
	},
	"PriodEvictedInVain":   {{Series: With(Up, `priod_notes{note="evicted-in-vain"}`, "0x29 1x30 2x30 3x30 0x60"), Firing: map[int][]string{29: nil, 85: nil, 92: {"PriodEvictedInVain"}, 130: nil}}},
	"PriodWindowLimitKept": {{Series: With(Up, `priod_window_jobs{state="late"}`, "0x29 1x2 0x10 3x30 0x60"), Firing: map[int][]string{35: nil, 50: nil, 60: {"PriodWindowLimitKept"}, 90: nil}}},
	"PriodGPUsIdle": {{Series: With(Up, `priod_idle_gpus{kind="hung"}`, "0x29 4x90 0x110", `priod_idle_gpus{kind="idle"}`, "0x229"),
		Firing: map[int][]string{29: nil, 80: nil, 95: {"PriodGPUsIdle"}, 125: nil}}},
	"PriodShareReturnLate": {{Series: With(Up, `priod_share_returns_total{account="vision",result="late"}`, "0x29 1x200", `priod_share_returns_total{account="vision",result="in-time"}`, "0+1x229"),
		Firing: map[int][]string{29: nil, 31: {"PriodShareReturnLate"}, 95: nil}}},
	"PriodHostAbsent": {{
		Series: map[string]string{
			`priod_build_info{instance="a",job="priod"}`: "1x99", `priod_build_info{instance="b",job="priod"}`: "1x29 _x29 1x40",
			`up{instance="a",job="priod"}`: "1x99", `up{instance="b",job="priod"}`: "1x29 0x29 1x40", `up{instance="c",job="node"}`: "0x99",
		},
		Firing: map[int][]string{29: nil, 38: nil, 50: {"PriodHostAbsent"}, 65: nil},
	}},
	"PriodCannotTakeOver": {{Series: With(blocked("cannot-take-over"), "priod_standby{instance=\"other\",job=\"priod\"}", "0x200"),
		Firing: map[int][]string{29: nil, 35: nil, 45: {"PriodCannotTakeOver"}, 62: nil}}},
	"PriodCyclesFail": {{Series: With(Up, `priod_cycles_total{result="failed"}`, "0x29 0+2x59 118x60", `priod_cycles_total{result="ok"}`, "0+4x200"),
		Firing: map[int][]string{29: nil, 40: nil, 70: {"PriodCyclesFail"}, 120: nil}}},
	"PriodFallsBehind": {
		{Series: With(Up, "priod_poll_period_seconds", "11x29 300x29 11x60", "priod_poll_interval_seconds", "10x200"),
			Firing: map[int][]string{29: nil, 40: nil, 50: {"PriodFallsBehind"}, 62: nil}},
		{Name: "as it is set", Series: With(Up, "priod_poll_period_seconds", "300x99", "priod_poll_interval_seconds", "290x99"), Firing: map[int][]string{90: nil}},
		{Name: "soon enough", Series: With(Up, "priod_poll_period_seconds", "60x99", "priod_poll_interval_seconds", "10x99"), Firing: map[int][]string{90: nil}},
	},
	"PriodBackPressure": {
		{Series: With(Up, `priod_postponed_writes{cause="rate-limit"}`, "0x29 200x29 0x60"), Firing: map[int][]string{29: nil, 40: nil, 50: {"PriodBackPressure"}, 70: nil}},
		{Series: With(Up, `priod_notes{note="writes-per-cycle"}`, "0x29 200x29 0x60"), Firing: map[int][]string{29: nil, 40: nil, 50: {"PriodBackPressure"}, 70: nil}},
	},
	"PriodWritesRefused": {{Series: With(Up, `priod_writes_total{status="refused"}`, "0x29 0+1x39 39x90", `priod_writes_total{status="unknown"}`, "0x200"),
		Firing: map[int][]string{29: nil, 40: nil, 60: {"PriodWritesRefused"}, 100: nil}}},
	"PriodFeatureIdle":      {{Series: With(Up, `priod_notes{note="sizes-unread"}`, "0x29 64x40 0x60"), Firing: map[int][]string{29: nil, 50: nil, 65: {"PriodFeatureIdle"}, 80: nil}}},
	"PriodAccountingUnread": {{Series: With(Up, `priod_accounting_unread{read="runs"}`, "0x29 1x40 0x60"), Firing: map[int][]string{29: nil, 50: nil, 65: {"PriodAccountingUnread"}, 75: nil}}},
	"PriodCheckFails":       {{Series: With(Up, `priod_check_findings{level="fail"}`, "0x29 1x80 0x60"), Firing: map[int][]string{29: nil, 80: nil, 100: {"PriodCheckFails"}, 115: nil}}},
	"PriodReloadFailed":     {{Series: With(Up, "priod_reload_refused", "0x29 1x29 0x60"), Firing: map[int][]string{29: nil, 35: nil, 45: {"PriodReloadFailed"}, 62: nil}}},
	"PriodJobsLeftAlone": {{Series: With(Up, `priod_unwritten_jobs{reason="foreign-value"}`, "0x29 3x50 0x60"),
		Firing: map[int][]string{29: nil, 50: nil, 65: {"PriodJobsLeftAlone"}, 85: nil}}},
	"PriodLimitReached": {{Series: With(Up, `priod_limited_jobs{limit="per-hour"}`, "0x29 3x150 0x60"),
		Firing: map[int][]string{29: nil, 140: nil, 160: {"PriodLimitReached"}, 185: nil}}},
	"PriodDiskFills": {
		{Series: With(Up, `priod_state_free_bytes{folder="state"}`, "5e9x29 4e8x60 5e9x500"), Of: []string{"PriodDiskFills"},
			Firing: map[int][]string{29: nil, 50: nil, 75: {"PriodDiskFills"}, 600: nil}},
		{Name: "within a day", Series: With(Up, `priod_state_free_bytes{folder="state"}`, "50e9-60e6x500"), Firing: map[int][]string{20: nil, 120: {"PriodDiskFills"}}},
		{Name: "in a week", Series: With(Up, `priod_state_free_bytes{folder="state"}`, "50e9-5e6x500"), Firing: map[int][]string{400: nil}},
	},
	"PriodStateLost": {{Series: With(Up, "priod_state_losses_total", "0x29 1x100"), Firing: map[int][]string{29: nil, 31: {"PriodStateLost"}, 95: nil}}},
	"PriodRestarts": {
		{Series: With(Up, "process_start_time_seconds", "1e9x29 1e9+60x5 2e9x100"), Firing: map[int][]string{29: nil, 35: {"PriodRestarts"}, 100: nil}},
		{Name: "of another program", Series: With(Up, `process_start_time_seconds{instance="x",job="x"}`, "1e9+60x99"), Firing: map[int][]string{60: nil}},
	},
	"PriodClockSet": {{Series: With(Up, "priod_clock_steps_total", "0x29 1x100"), Firing: map[int][]string{29: nil, 31: {"PriodClockSet"}, 95: nil}}},
}

func TestAlertsFire(t *testing.T) {
	var tests []Test
	known := map[string]bool{}
	for _, r := range Rules(t) {
		known[r.Alert] = true
		if len(states[r.Alert]) == 0 {
			t.Errorf("no state in which %s fires", r.Alert)
		}
		for _, c := range states[r.Alert] {
			c.Name = strings.TrimSuffix(r.Alert+": "+c.Name, ": ")
			tests = append(tests, c)
		}
	}
	for alert := range states {
		if !known[alert] {
			t.Errorf("no alert %s", alert)
		}
	}
	tests = append(tests, Test{Name: "all is well", Series: Up, Firing: map[int][]string{30: nil, 400: nil}})
	Run(t, tests...)
}

// Each alert has a section of the page, in the same order, with its severity, and its annotation
// names it.
func TestEveryAlertHasASection(t *testing.T) {
	text, err := os.ReadFile(Path(t, "docs", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sections, alerts []string
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)\n\n(\w+)\. `).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, m[1]+" "+strings.ToLower(m[2]))
	}
	names := map[string]bool{}
	for _, r := range Rules(t) {
		severity := r.Labels["severity"]
		alerts = append(alerts, r.Alert+" "+severity)
		if !slices.Contains([]string{"critical", "warning", "info"}, severity) || names[r.Alert] || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: stands twice, or lacks severity, summary or description", r.Alert)
		}
		names[r.Alert] = true
		if want := "/usr/local/share/doc/slurmprio/docs/alerts.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want {
			t.Errorf("%s: its section is %q, want %q", r.Alert, r.Annotations["runbook"], want)
		}
	}
	if !slices.Equal(sections, alerts) {
		t.Errorf("sections\n%s\nalerts\n%s", strings.Join(sections, "\n"), strings.Join(alerts, "\n"))
	}
}
