package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// clocksApart is how far the clocks of hosts may be apart without a word.
const clocksApart = 30 * time.Second

// checkShared looks at the folder that the hosts of slurmctld share. stateSave is slurmctld's
// own such folder, "" when it is not known.
func checkShared(cfg *config.Config, stateSave string) []live.Finding {
	const name = "shared folder"
	dir := cfg.State.Shared
	if dir == "" {
		if cfg.Cycle.FollowController && cfg.Eviction().Enabled {
			return []live.Finding{{Level: live.Warn, Name: name, Fix: `state.shared = "/a/folder/of/all/hosts"`,
				Text: "a host that takes over does not know evictions under way on the other one; they end when that one is active again"}}
		}
		return nil
	}
	fix := fmt.Sprintf("mount it on each host of SlurmctldHost, and install -d -o priod -g priod -m 0750 %s", dir)
	owner, err := store.CheckShared(cfg.State.Dir, dir)
	var ahead time.Duration
	if err == nil || errors.Is(err, store.ErrUnowned) {
		var unwritable error
		if ahead, unwritable = probe(dir); unwritable != nil {
			err = unwritable
		}
	}
	switch {
	case errors.Is(err, store.ErrUnowned):
		return []live.Finding{{Level: live.Warn, Name: name, Text: err.Error()}}
	case err != nil:
		return []live.Finding{{Level: live.Fail, Name: name, Text: err.Error(), Fix: fix}}
	}
	text := dir + " can be written, and no priod has used it yet"
	if owner != nil {
		text = fmt.Sprintf("%s can be written; the priod of %s writes there since %s", dir, owner.Host, owner.Since.Local().Format(time.DateTime))
	}
	found := []live.Finding{{Level: live.Pass, Name: name, Text: text}}
	if stateSave != "" && !sameFileSystem(dir, stateSave) {
		found = append(found, live.Finding{Level: live.Warn, Name: name, Text: fmt.Sprintf("%s is on another file system than slurmctld's StateSaveLocation (%s), which all hosts of slurmctld share", dir, stateSave), Fix: "make sure that each of them mounts it"})
	}
	return append(found, checkClocks(dir, owner, ahead))
}

// checkClocks compares this host's clock with that of the file system, by how much this one
// is ahead, and with that of the host that owns the folder, as it was when it took over.
func checkClocks(dir string, owner *store.Owner, ahead time.Duration) live.Finding {
	const name = "clocks"
	if ahead.Abs() > clocksApart {
		return live.Finding{Level: live.Warn, Name: name, Text: "the clocks of this host and of the shared folder's server differ: this one is " + offset(ahead), Fix: "set both by NTP"}
	}
	text := "this host and the shared folder's server agree"
	if owner == nil {
		return live.Finding{Level: live.Pass, Name: name, Text: text}
	}
	written, err := store.OwnerWritten(dir)
	if err != nil {
		return live.Finding{Level: live.Warn, Name: name, Text: err.Error()}
	}
	if by := owner.Since.Sub(written) - ahead; by.Abs() > clocksApart {
		return live.Finding{Level: live.Warn, Name: name, Text: fmt.Sprintf("when the priod of %s took over, its clock was %s compared with this host", owner.Host, offset(by)), Fix: "set both by NTP"}
	}
	return live.Finding{Level: live.Pass, Name: name, Text: text + ", as did the clock of " + owner.Host + " when it took over"}
}

func offset(d time.Duration) string {
	if d = d.Round(time.Second); d < 0 {
		return (-d).String() + " behind"
	}
	return d.String() + " ahead"
}

// sameFileSystem reports whether two folders are on one file system; also when one of them
// is not for this user to see.
func sameFileSystem(a, b string) bool {
	var of [2]syscall.Stat_t
	return syscall.Stat(a, &of[0]) != nil || syscall.Stat(b, &of[1]) != nil || of[0].Dev == of[1].Dev
}

// probe makes a file in a folder and removes it, and returns how far this host's clock is ahead
// of the one by which the file system dated it.
func probe(dir string) (ahead time.Duration, err error) {
	f, err := os.CreateTemp(dir, "check-*")
	if err != nil {
		return 0, fmt.Errorf("this user cannot write there: %w", err)
	}
	_, err = f.WriteString("x") // a server dates it then
	info, err2 := f.Stat()
	now := time.Now()
	if err = errors.Join(err, err2, f.Close(), os.Remove(filepath.Join(dir, filepath.Base(f.Name())))); err != nil {
		return 0, fmt.Errorf("this user cannot write there: %w", err)
	}
	return now.Sub(info.ModTime()), nil
}

// rehearse reads all that a priod reads that takes over on this host, and decides a cycle.
// It writes nothing. slurm: slurmctld answers; else only the files are read.
func rehearse(ctx context.Context, cfg *config.Config, slurm bool) (out []live.Finding) {
	finding := func(name, text string, err error) {
		f := live.Finding{Level: live.Pass, Name: name, Text: text}
		if err != nil {
			f.Level, f.Text = live.Fail, err.Error()
		}
		out = append(out, f)
	}
	dir := cfg.Journals()
	if cfg.State.Shared != "" && slurm {
		cluster, err := live.New(newClient(cfg)).Identity(ctx)
		if err == nil {
			err = ofCluster(cfg, cluster)
		}
		finding("cluster", "the shared folder is "+cluster+"'s, as this Slurm is, or has no owner yet", err)
	}
	told, err := store.ReadJournal(dir)
	text := ""
	if err == nil {
		text = fmt.Sprintf("%s tells of %s, %s under way and %s of jobs that failed%s", told.File.Path(), report.Plural(len(told.Writes.Changes()), "value", "values"),
			report.Plural(len(told.Evictions.Urgent()), "job of evictions", "jobs of evictions"), report.Plural(len(told.Failures.Failures), "run", "runs"), age(told.File.Path()))
		err = spoiled(told.File.Path(), told.File.Damaged())
	}
	finding("journal", text, err)
	out = append(out, checkDatabase(ctx, cfg.State.Dir, true)...)
	if !slurm {
		return out
	}
	out = append(out, rehearseAccounting(ctx, cfg))
	began := time.Now()
	result, err := preview(ctx, cfg, hclog.NewNullLogger())
	if err == nil {
		s := &result.Snapshot
		text = fmt.Sprintf("%s and %s read and decided in %s; %s would be written", report.Plural(len(s.Jobs), "job", "jobs"), report.Plural(len(s.Nodes), "node", "nodes"),
			time.Since(began).Round(time.Millisecond), report.Plural(len(result.Plan.Actions), "value", "values"))
	}
	finding("cycle", text, err)
	return out
}

// ofCluster is an error when the shared folder is another cluster's.
func ofCluster(cfg *config.Config, cluster string) error {
	owner, err := store.CheckShared(cfg.State.Dir, cfg.State.Shared)
	if err == nil && owner != nil && owner.Cluster != "" && owner.Cluster != cluster {
		err = fmt.Errorf("%s is cluster %s's, and this is %s: give each cluster a folder of its own", cfg.State.Shared, owner.Cluster, cluster)
	}
	if errors.Is(err, store.ErrUnowned) {
		err = nil
	}
	return err
}

// rehearseAccounting reads what TE jobs have used lately, as a priod that begins does. Without it
// budgets count what the polls see.
func rehearseAccounting(ctx context.Context, cfg *config.Config) live.Finding {
	now := time.Now()
	past, err := live.New(newClient(cfg)).Past(ctx, now.Add(-cluster.UsePeriod), now)
	if err != nil {
		return live.Finding{Level: live.Warn, Name: "accounting", Text: "it cannot be read, and TE budgets would count only what polls see: " + err.Error()}
	}
	return live.Finding{Level: live.Pass, Name: "accounting", Text: fmt.Sprintf("%s of the last %s read", report.Plural(len(past), "run", "runs"), cluster.UsePeriod)}
}

// age tells when a journal was last written; "" where there is none.
func age(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return ", last written at " + info.ModTime().Local().Format(time.DateTime)
}

// spoiled is an error when lines of a journal cannot be read.
func spoiled(path string, lines int) error {
	if lines == 0 {
		return nil
	}
	return fmt.Errorf("%s has %s that cannot be read; the active priod keeps a copy and goes on without them", path, report.Plural(lines, "line", "lines"))
}
