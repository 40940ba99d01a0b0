package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/store"
	"slurmprio/priod/undo"
)

// checkShared looks at the folder that the hosts of slurmctld share.
func checkShared(cfg *config.Config) []live.Finding {
	const name = "shared folder"
	dir := cfg.State.Shared
	if dir == "" {
		if cfg.Cycle.FollowController && cfg.Eviction().Enabled {
			return []live.Finding{{Level: live.Warn, Name: name, Fix: `state.shared = "/a/folder/of/all/hosts"`,
				Text: "a host that takes over knows nothing of the evictions that the other one has under way, and they end when that one acts again"}}
		}
		return nil
	}
	fix := fmt.Sprintf("mount it on each host of SlurmctldHost, and install -d -o priod -g priod -m 0750 %s", dir)
	owner, err := store.CheckShared(cfg.State.Dir, dir)
	if err == nil {
		err = writable(dir)
	}
	switch {
	case err != nil:
		return []live.Finding{{Level: live.Fail, Name: name, Text: err.Error(), Fix: fix}}
	case owner == nil:
		return []live.Finding{{Level: live.Pass, Name: name, Text: dir + " can be written, and no priod has used it yet"}}
	}
	return []live.Finding{{Level: live.Pass, Name: name, Text: fmt.Sprintf("%s can be written; the priod of %s writes there since %s", dir, owner.Host, owner.Since.Local().Format(time.DateTime))}}
}

// writable makes sure that this user can make files in a folder.
func writable(dir string) error {
	probe, err := os.CreateTemp(dir, "check-*")
	if err != nil {
		return fmt.Errorf("this user cannot write there: %w", err)
	}
	probe.Close()
	return os.Remove(filepath.Join(dir, filepath.Base(probe.Name())))
}

// rehearse reads all that a priod reads that takes over on this host, and decides a cycle.
// It writes nothing.
func rehearse(ctx context.Context, cfg *config.Config) (out []live.Finding) {
	finding := func(name, text string, err error) {
		f := live.Finding{Level: live.Pass, Name: name, Text: text}
		if err != nil {
			f.Level, f.Text = live.Fail, err.Error()
		}
		out = append(out, f)
	}
	journal, err := undo.Open(cfg.Journals())
	text := ""
	if err == nil {
		text = fmt.Sprintf("%s tells of %s", journal.Path(), plural(len(journal.Changes()), "value", "values"))
		if journal.Damaged() > 0 {
			err = fmt.Errorf("%s has %d lines that cannot be read; the priod that acts sets a copy aside and goes on without them", journal.Path(), journal.Damaged())
		}
	}
	finding("undo journal", text, err)
	evictions, err := store.OpenEvictions(ctx, cfg.State.Dir, cfg.Journals())
	if err == nil {
		text = fmt.Sprintf("%s under way", plural(len(evictions.Urgent()), "job of evictions is", "jobs of evictions are"))
	}
	finding("evictions", text, err)
	began := time.Now()
	result, err := preview(ctx, cfg, hclog.NewNullLogger())
	if err == nil {
		s := &result.Snapshot
		text = fmt.Sprintf("%s and %s read and decided in %s; %s would be written", plural(len(s.Jobs), "job", "jobs"), plural(len(s.Nodes), "node", "nodes"),
			time.Since(began).Round(time.Millisecond), plural(len(result.Plan.Actions), "value", "values"))
	}
	finding("cycle", text, err)
	return out
}
