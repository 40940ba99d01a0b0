package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/idle"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/prio"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "check this Slurm and this configuration",
		Description: "FAIL and WARN first, with the line to add to slurm.conf or the command to run; passed checks are counted.\n" +
			"Exit status 1 when something FAILs. Run it as the daemon's user to see its rights.\n" +
			"It begins with the daemon's own health, or with what is away.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "deep", Usage: "also read what a take-over on this host would read, and decide a cycle; writes nothing"},
			&cli.BoolFlag{Name: "all", Usage: "print what passed, too; --deep always does"},
			jsonFlag(),
		},
		Before: noArgs,
		Action: configured(func(c *cli.Context, cfg *config.Config) error {
			findings := check(c.Context, cfg)
			if own := checkDaemon(c.Context, cfg); slices.ContainsFunc(findings, isAway) {
				findings = append(findings, own...) // what is away comes first
			} else {
				findings = append(own, findings...)
			}
			if c.Bool("deep") {
				findings = append(findings, rehearse(c.Context, cfg, !slices.ContainsFunc(findings, isAway))...)
			}
			counts := map[live.Level]int{}
			for _, f := range findings {
				counts[f.Level]++
			}
			err := answer(c, map[string]any{"findings": findings, "failed": counts[live.Fail], "warned": counts[live.Warn]}, func(w io.Writer) {
				fmt.Fprintf(w, "on: %s\n", strings.Join(cfg.On(), ", "))
				showFindings(w, findings, c.Bool("all") || c.Bool("deep"))
				fmt.Fprintf(w, "%d passed, %d warned, %d failed\n", counts[live.Pass], counts[live.Warn], counts[live.Fail])
			})
			if err == nil && counts[live.Fail] > 0 {
				err = errProblem
			}
			return err
		}),
	}
}

// check is all that the verb looks at.
func check(ctx context.Context, cfg *config.Config) []live.Finding {
	slurm := live.New(newClient(cfg))
	if away := checkAnswers(ctx, slurm); away != nil {
		return slices.Concat(away, checkState(ctx, cfg), checkShared(cfg, ""))
	}
	findings := slurm.Check(ctx, cfg.Decide(), live.Uses{
		Steer: cfg.Steer(), Evicts: cfg.Eviction().Enabled || cfg.Preemption.Defrag || cfg.Rounds.Enabled, Sizing: cfg.Sizing.Enabled, Switches: cfg.SwitchWait(),
		Retries: cfg.Retry.Enabled, Outputs: cfg.Retry.Output, Root: os.Geteuid() == 0, Untried: cfg.Slurm.Untried,
	})
	findings = checkProfile(cfg, checkUser(cfg, findings))
	findings = append(findings, checkController(ctx, slurm, cfg)...)
	findings = append(findings, checkState(ctx, cfg)...)
	lua := checkLua(ctx, cfg)
	findings = append(findings, lua.findings...)
	findings = append(findings, checkHold(cfg, prio.HoldFile, lua.hold)...)
	findings = append(findings, checkConsent(ctx, slurm, cfg)...)
	findings = append(findings, checkBudgets(ctx, slurm, cfg)...)
	findings = append(findings, checkShares(ctx, slurm, cfg)...)
	findings = append(findings, checkPrivate(ctx, cfg)...)
	findings = append(findings, slurm.CheckWorking(ctx, sources(cfg), slices.Contains(cfg.Usage.OnIdle, string(idle.Notify)))...)
	return append(findings, checkShared(cfg, stateSave(ctx, cfg))...)
}

// checkUser replaces what is found of the rights of a user who is not priod's, who need none.
func checkUser(cfg *config.Config, findings []live.Finding) []live.Finding {
	info, err := os.Stat(cfg.State.Dir)
	if err != nil || os.Geteuid() == 0 {
		return findings
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !known || int(owner.Uid) == os.Geteuid() {
		return findings
	}
	name := strconv.FormatUint(uint64(owner.Uid), 10)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	for i := range findings {
		if f := &findings[i]; f.Name == "rights" {
			*f = live.Finding{Level: live.Warn, Name: f.Name, Text: "not looked at: priod runs as " + name + ", and this is another user", Fix: "runuser -u " + name + " -- priod check"}
		}
	}
	return findings
}

// checkProfile says which parts of a profile do not apply to this Slurm: what would be a failure of a
// feature that the file names is then a warning.
func checkProfile(cfg *config.Config, findings []live.Finding) []live.Finding {
	for _, text := range cfg.Advice {
		findings = append([]live.Finding{{Level: live.Warn, Name: "configuration", Text: text}}, findings...)
	}
	if cfg.Profile == "" {
		return findings
	}
	var without []string
	for i := range findings {
		f := &findings[i]
		failed := f.Level == live.Fail || f.Idle
		feature := map[string]string{"steering": "steering", "sizing": "sizing", "switches": "locality"}[f.Name]
		if failed && feature != "" && cfg.FromProfile(feature+".enabled") && !slices.Contains(without, feature) {
			f.Level = live.Warn
			without = append(without, feature)
		}
	}
	finding := live.Finding{Level: live.Pass, Name: "profile", Text: cfg.Profile + ": all of it applies here"}
	if len(without) > 0 {
		finding.Level, finding.Text = live.Warn, fmt.Sprintf("%s: does not apply here: %s (see below); the rest applies", cfg.Profile, strings.Join(without, ", "))
	}
	return append([]live.Finding{finding}, findings...)
}

// findings are the same as the daemon stores them.
func findings(ctx context.Context, cfg *config.Config) []store.Finding {
	var out []store.Finding
	for _, f := range check(ctx, cfg) {
		out = append(out, store.Finding{Level: string(f.Level), Name: f.Name, Text: f.Text, Fix: f.Fix})
	}
	return out
}

var severity = map[live.Level]int{live.Fail: 2, live.Warn: 1}

var levels = map[live.Level]text.Color{live.Pass: report.Good, live.Warn: report.Note, live.Fail: report.Bad}

// showFindings prints failures and warnings, then what passed: each of it with all, else its names.
func showFindings(w io.Writer, findings []live.Finding, all bool) {
	var passed []string
	count := 0
	for _, f := range findings {
		if f.Level != live.Pass {
			continue
		}
		if count++; !slices.Contains(passed, f.Name) {
			passed = append(passed, f.Name)
		}
	}
	findings = slices.DeleteFunc(slices.Clone(findings), func(f live.Finding) bool { return f.Level == live.Pass && !all })
	slices.SortStableFunc(findings, func(a, b live.Finding) int { return cmp.Compare(severity[b.Level], severity[a.Level]) })
	if !all && len(passed) > 0 {
		findings = append(findings, live.Finding{Level: live.Pass, Name: strconv.Itoa(count), Text: strings.Join(passed, ", ")})
	}
	for _, f := range findings {
		fmt.Fprintf(w, "%s  %-14s  %s\n", report.Mark{Text: fmt.Sprint(f.Level), Meaning: levels[f.Level]}, f.Name, report.Safe(f.Text))
		if f.Fix != "" && f.Level != live.Pass {
			fmt.Fprintf(w, "%22s  -> %s\n", "", report.Safe(f.Fix))
		}
	}
}

// checkController says which host's priod is active; nothing without follow_controller.
func checkController(ctx context.Context, slurm *live.Cluster, cfg *config.Config) (out []live.Finding) {
	if !cfg.Cycle.FollowController {
		return nil
	}
	const name = "controller"
	var standby daemon.StandBy
	switch err := daemon.Elsewhere(ctx, slurm, cfg); {
	case err == nil:
		out = append(out, live.Finding{Level: live.Pass, Name: name, Text: "the active slurmctld is on this host: priod acts here"})
	case errors.As(err, &standby):
		out = append(out, live.Finding{Level: live.Pass, Name: name, Text: standby.Error()})
	default:
		out = append(out, live.Finding{Level: live.Fail, Name: name, Text: err.Error()})
	}
	// What cannot be read is found by the other checks.
	if conf, err := newClient(cfg).Config(ctx); err == nil && cfg.Constants.Commands.ReadTimeout <= conf.MessageTimeout() {
		out = append(out, live.Finding{Level: live.Warn, Name: name, Fix: "MessageTimeout=10 in slurm.conf",
			Text: fmt.Sprintf("a command of Slurm gets less time than scontrol ping needs for a hanging controller (MessageTimeout, %s)", conf.MessageTimeout())})
	}
	return out
}

// stateSave is where slurmctld keeps its state, "" when that cannot be read.
func stateSave(ctx context.Context, cfg *config.Config) string {
	if cfg.State.Shared == "" {
		return ""
	}
	conf, err := newClient(cfg).Config(ctx)
	if err != nil {
		return ""
	}
	return conf.StateSaveLocation()
}

// isAway reports whether a finding is that of checkAnswers.
func isAway(f live.Finding) bool { return f.Name == slurmctld }

const slurmctld = "slurmctld"

// checkAnswers says that no slurmctld answers, before each of the other checks finds it out; nil: one does.
func checkAnswers(ctx context.Context, slurm *live.Cluster) []live.Finding {
	all, err := slurm.Controllers(ctx)
	var down []string
	for _, c := range all {
		if c.Up {
			return nil
		}
		down = append(down, c.Host)
	}
	f := live.Finding{Level: live.Fail, Name: slurmctld, Text: fmt.Sprintf("does not answer on %s: nothing else of Slurm is checked", strings.Join(down, ", ")), Fix: "scontrol ping; systemctl status slurmctld"}
	switch {
	case errors.Is(err, slurmplug.ErrNotFound):
		return nil // the other checks say what is missing
	case err != nil:
		f.Text = fmt.Sprintf("does not answer: %v: nothing else of Slurm is checked", err)
	}
	return []live.Finding{f}
}

// soundPatience is for how long check reads the database.
const soundPatience = 20 * time.Second

// checkDatabase reads the database, thoroughly or not; nothing where there is none yet.
func checkDatabase(ctx context.Context, dir string, thorough bool) []live.Finding {
	f := live.Finding{Level: live.Pass, Name: "database", Text: "it is sound"}
	if _, err := os.Stat(filepath.Join(dir, "priod.db")); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, soundPatience)
	defer cancel()
	r, err := store.OpenReader(ctx, dir)
	if err == nil {
		defer r.Close()
		err = r.Sound(ctx, thorough)
	}
	switch {
	case ctx.Err() != nil:
		f.Level, f.Text = live.Warn, fmt.Sprintf("it cannot be read within %s", soundPatience)
	case errors.Is(err, fs.ErrPermission):
		return nil // "state folder" says so
	case err != nil:
		f.Level, f.Text = live.Fail, err.Error()
		f.Fix = "systemctl restart priod: it sets the file aside and keeps what the journals tell; only history is lost"
	}
	return []live.Finding{f}
}

// checkState looks at the state folder.
func checkState(ctx context.Context, cfg *config.Config) []live.Finding {
	const name = "state folder"
	dir := cfg.State.Dir
	fix := fmt.Sprintf("install -d -o priod -g priod -m 0750 %s", dir)
	info, err := os.Stat(dir)
	if err != nil {
		return []live.Finding{{Level: live.Warn, Name: name, Text: err.Error() + "; priod run creates it if permitted", Fix: fix}}
	}
	if !info.IsDir() {
		return []live.Finding{{Level: live.Fail, Name: name, Text: dir + " is no folder", Fix: fix}}
	}
	var out []live.Finding
	if p, err := store.Paused(cfg.Journals()); err != nil {
		out = append(out, live.Finding{Level: live.Warn, Name: name, Text: err.Error()})
	} else if p != nil {
		out = append(out, live.Finding{Level: live.Warn, Name: "pause", Text: p.String(), Fix: "priod resume"})
	}
	out = append(out, checkDatabase(ctx, dir, false)...)
	if _, err := probe(dir); err != nil {
		return append(out, live.Finding{Level: live.Warn, Name: name, Text: err.Error(), Fix: fix})
	}
	return append(out, live.Finding{Level: live.Pass, Name: name, Text: dir + " can be written"})
}
