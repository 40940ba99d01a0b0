package daemon

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/tests/alerts"
)

// failures are errors that end a cycle, and their words.
var failures = map[Blocked][]error{
	OtherProcess: {store.ErrGaveWay},
	SlurmSilent: {
		slurmplug.ErrController, slurmplug.ErrTimeout, errNoController, errUnasked,
		&slurmplug.CommandError{Command: "squeue", Kind: slurmplug.ErrExit, Message: "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"},
		fmt.Errorf("%w: %w", errUnasked, &slurmplug.CommandError{Command: "scontrol ping", Kind: slurmplug.ErrTimeout}),
	},
	SlurmRateLimit: {slurmplug.ErrRate, &slurmplug.CommandError{Command: "squeue", Kind: slurmplug.ErrTimeout, Limit: "30 at once"}},
	SlurmDoubtful:  {slurmplug.ErrDoubtful, slurmplug.ErrOutputTooLong},
	SlurmCommands:  {slurmplug.ErrNotFound, &slurmplug.CommandError{Command: "squeue", Kind: slurmplug.ErrNotFound}},
	SlurmFails:     {&slurmplug.CommandError{Command: "squeue", Kind: slurmplug.ErrExit, Message: "squeue: fatal: Unable to process configuration file"}},
	OtherError:     {errors.New("something else"), errWithoutReason},

	Blocked(store.DiskFull):     {syscall.ENOSPC},
	Blocked(store.ReadOnly):     {&os.PathError{Op: "open", Path: "journal.jsonl", Err: syscall.EROFS}},
	Blocked(store.DiskFails):    {&os.PathError{Op: "open", Path: "journal.jsonl", Err: syscall.EIO}},
	Blocked(store.FolderGone):   {&os.PathError{Op: "open", Path: "act.lock", Err: syscall.ENOENT}},
	Blocked(store.SharedFolder): {errors.New("state.shared: /slurm/priod lacks the files that the priod of ctl1 kept there: is it mounted?"), store.ErrUnowned},
	Blocked(store.TakenOver):    {store.ErrTakenOver},
}

// errWithoutReason has no name.
var errWithoutReason = fmt.Errorf("read the switches: %w", errors.New("no name"))

func TestErrorsHaveWords(t *testing.T) {
	for want, errs := range failures {
		for _, err := range errs {
			for _, err := range []error{err, fmt.Errorf("read Slurm: %w", err), errors.Join(nil, fmt.Errorf("record the plan: %w", err))} {
				if got := failedBy(err); got != want {
					t.Errorf("%v: %s, want %s", err, got, want)
				}
			}
		}
	}
}

// endNoCycle are the errors with a name that no cycle ends with, and where they stay.
var endNoCycle = []string{
	"ErrTaken",                            // ends the daemon: store.ErrTaken
	"errUnmade", "errOutdated", "ErrNone", // of readers
	"ErrCounts", "ErrMixed", "ErrGroups", "ErrFeature", // why a constraint is left alone
	"ErrNoJob", "ErrUntil", // of single jobs
	"ErrExit", // is a kind of CommandError, which has its own text
	"errGone", // a new database is begun: tested in the store
	"errFolderGone", "ErrLost", "ErrUnsound",
}

// An error that somebody gives a name has a word, or ends no cycle.
func TestNamedErrorsHaveWords(t *testing.T) {
	var known []string
	for _, errs := range failures {
		for _, err := range errs {
			known = append(known, err.Error())
		}
	}
	for _, folder := range []string{".", "../store", "../live", "../undo", "../journal", "../evict", "../retry", "../cycle", "../plan", "../locality", "../../slurmplug"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(folder, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok {
					for i, value := range v.Values {
						if text := newError(value); text != "" && !slices.Contains(known, text) && !slices.Contains(endNoCycle, v.Names[i].Name) {
							t.Errorf("%s: %s: give it a word in failedBy, or say that it ends no cycle", path, v.Names[i].Name)
						}
					}
				}
				return true
			})
		}
	}
}

// newError is the text of a call of errors.New, "" for anything else.
func newError(value ast.Expr) string {
	call, ok := value.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return ""
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "New" || fmt.Sprint(f.X) != "errors" {
		return ""
	}
	text, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return ""
	}
	return strings.Trim(text.Value, "`\"")
}

// stateOf runs a daemon into a state.
func stateOf(t *testing.T, why Blocked) *Daemon {
	t.Helper()
	f := &fake{jobs: []cluster.Job{trialJob()}}
	d, _ := newDaemon(t, f)
	switch why {
	case Paused:
		f.hold = "paused by ann at noon"
	case Rival:
		f.hold = store.OwnPause("another priod writes to this cluster").String()
	case SlurmVersion:
		f.version = "19.05.0"
	case CannotTakeOver:
		f.controllers, f.watchErr = controllers(true, true), errors.New("state.shared: is it mounted?")
		d = following(t, f)
		d.Config.State.Shared = t.TempDir()
	case OtherProcess:
		f.plannedErr = store.ErrGaveWay
	default:
		if len(failures[why]) == 0 {
			t.Fatalf("no state is blocked by %s", why)
		}
		f.plannedErr = failures[why][0]
	}
	turn(t, d)
	d.health.cycle(0, time.Hour, failureOf(d)) // as Run does
	return d
}

// failureOf is the last cycle's error, as report returned it.
func failureOf(d *Daemon) error {
	if d.last.failed > 0 {
		return d.last.err
	}
	return nil
}

// scraped is what Prometheus reads of a daemon.
func scraped(t *testing.T, d *Daemon) map[string]*dto.MetricFamily {
	all := map[string]*dto.MetricFamily{}
	for _, f := range families(t, d) {
		all[f.GetName()] = f
	}
	return all
}

// Each word for why nothing is written shows in /health and in the metric, and one alert
// says it.
func TestEveryBlockedStateHasAnAlert(t *testing.T) {
	want := map[Blocked]string{
		Paused: "PriodPaused", OtherProcess: "PriodPaused", Rival: "PriodRival", SlurmVersion: "PriodSlurmVersion", CannotTakeOver: "PriodCannotTakeOver",
		SlurmSilent: "PriodCannotReadSlurm", SlurmRateLimit: "PriodCannotReadSlurm", SlurmDoubtful: "PriodCannotReadSlurm", SlurmCommands: "PriodCannotReadSlurm", SlurmFails: "PriodCannotReadSlurm",
		OtherError: "PriodUnhealthy",
	}
	var of []string
	for _, r := range alerts.Rules(t) {
		if r.Alert != "PriodNoActiveHost" && r.Alert != "PriodCyclesFail" { // of the only host here, and of some cycles
			of = append(of, r.Alert)
		}
	}
	series, firing := map[string]string{}, map[int][]string{}
	const soon, late = 30, 370 // later than any alert but PriodPaused wants, and than that
	show := func(instance string, minutes int, d *Daemon) {
		now := scraped(t, d)
		alerts.On(series, instance, alerts.Scraped(t, alerts.Phase{Minutes: minutes + 1, First: now, Last: now}))
	}
	for _, why := range allBlocked {
		d := stateOf(t, why)
		if s := d.health.state(); s.Blocked != why {
			t.Errorf("/health says %q, want %q", s.Blocked, why)
		}
		has(t, d, fmt.Sprintf("priod_blocked{reason=%s} 1", why))
		alert, minutes := want[why], soon
		if alert == "" {
			alert = "PriodCannotRecord"
		}
		if alert == "PriodPaused" {
			minutes = late
		}
		firing[minutes] = append(firing[minutes], alert+" "+string(why))
		show(string(why), minutes, d)
	}
	show("well", late, stateOfNone(t))
	alerts.Run(t, alerts.Test{Of: of, Each: true, Series: series, Firing: firing})
}

func stateOfNone(t *testing.T) *Daemon {
	d, _ := newDaemon(t, &fake{jobs: []cluster.Job{trialJob()}})
	turn(t, d)
	d.health.cycle(0, time.Hour, nil)
	return d
}

// saidElsewhere are words that another metric says too, which has the alert.
var saidElsewhere = map[string]string{
	`priod_unwritten_jobs{reason="paused"}`:      "priod_blocked",
	`priod_unwritten_jobs{reason="postponed"}`:   "priod_postponed_writes",
	`priod_unwritten_jobs{reason="unknown"}`:     "priod_writes_total",
	`priod_unwritten_jobs{reason="write-limit"}`: "priod_notes",
	`priod_notes{note="trial"}`:                  "", // not a trouble: a trial is on
}

// Each word of the gauges of what is left undone has an alert.
func TestEveryWordOfTroubleHasAnAlert(t *testing.T) {
	d := stateOfNone(t)
	well := scraped(t, d)
	series, instances := map[string]string{}, []string{}
	const minutes = 130 // more than PriodLimitReached wants
	for name, level := range map[string]float64{
		"priod_notes": 5, "priod_postponed_writes": 5, "priod_limited_jobs": 5, "priod_eviction_overdue_seconds": 3600, "priod_lost_jobs_total": 1,
		"priod_accounting_unread": 1, "priod_unwritten_jobs": 50, "priod_reload_refused": 1, "priod_rival": 1, "priod_clock_steps_total": 1, "priod_state_losses_total": 1,
	} {
		for _, m := range well[name].GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			one := name + "{" + strings.Join(labels, ",") + "}"
			if _, said := saidElsewhere[one]; said {
				continue
			}
			instance := strings.NewReplacer(`"`, "", "{", " ", "}", "").Replace(one)
			alerts.On(series, instance, alerts.With(alerts.Up, one, fmt.Sprintf("0x9 %vx%d", level, minutes)))
			instances = append(instances, instance)
		}
	}
	if len(instances) < len(plan.NoteKinds)+len(slurmplug.Causes) {
		t.Errorf("%d series", len(instances))
	}
	alerts.Run(t, alerts.Test{Series: series, Ever: map[int][]string{minutes: instances}})
}

// Each word of these metrics stands in the page of alerts.
func TestWordsStandInTheManual(t *testing.T) {
	text := string(read(t, "../../docs/alerts.md"))
	now := scraped(t, stateOfNone(t))
	for _, name := range []string{
		"priod_blocked", "priod_notes", "priod_postponed_writes", "priod_limited_jobs", "priod_eviction_overdue_seconds", "priod_lost_jobs_total", "priod_accounting_unread",
	} {
		for _, m := range now[name].GetMetric() {
			word := m.GetLabel()[0].GetValue()
			if slices.Contains([]Blocked{Rival, SlurmVersion, CannotTakeOver}, Blocked(word)) {
				continue // an alert of its own, without a table
			}
			if !strings.Contains(text, "`"+word+"`") {
				t.Errorf("%s: no word of %s", name, word)
			}
		}
	}
}

// While slurmctld is away its commands fail with one text and then with another: that is one trouble.
func TestOneTroubleOfSeveralTexts(t *testing.T) {
	silent := func(text string) error { return fmt.Errorf("%s: %w", text, slurmplug.ErrController) }
	if a, b := troubleOf(silent("squeue")), troubleOf(silent("scontrol ping")); a != b {
		t.Errorf("%q and %q", a, b)
	}
	if a, b := troubleOf(errors.New("a")), troubleOf(errors.New("b")); a == b {
		t.Errorf("two other errors are one trouble: %q", a)
	}
}
