package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// flags are those of a command that tries configurations.
func (o *options) flags(command string) (flags *flag.FlagSet, configs *[]string) {
	flags, configs = flag.NewFlagSet("evidence "+command, flag.ContinueOnError), new([]string)
	flags.StringVar(&o.dir, "dir", "bin/evidence", "results are kept in this `FOLDER`")
	flags.IntVar(&o.workers, "workers", 2, "`NUMBER` of simulations at a time")
	flags.Func("config", "try the priod.toml in `FILE` in place of profile balanced; may be repeated", func(path string) error {
		*configs = append(*configs, path)
		return nil
	})
	return flags, configs
}

// tried are the setups of files of priod's configuration; without files the profile.
func tried(files []string) (sets []setup, err error) {
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		sets = append(sets, setup{"try-" + name, "priod, " + name, string(text), nil})
	}
	if len(sets) == 0 {
		sets = []setup{profile}
	}
	return sets, nil
}

// startCombined measures the profile, or what is tried in place of it, on the combined workload, and prints rows as those of
// docs/evidence/all-four.md.
func startCombined(ctx context.Context, args []string, w io.Writer) error {
	add := func(m *matrix, set setup, load float64) error { return m.add(set, load, "", calm) }
	return tryCombined(ctx, "combined", args, w, add, (*matrix).table)
}

// tryCombined runs what add adds for each setup and load, and prints a table of each load.
func tryCombined(ctx context.Context, command string, args []string, w io.Writer, add func(*matrix, setup, float64) error, table func(*matrix, io.Writer, float64)) error {
	var o options
	flags, configs := o.flags(command)
	flags.IntVar(&o.seeds, "seeds", 5, "`NUMBER` of seeds")
	flags.IntVar(&o.jobs, "jobs", 3000, "`NUMBER` of jobs of each trace")
	loads := flags.String("loads", "0.9", "loads, with commas")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	tries, err := tried(*configs)
	if err := cmp.Or(o.check(flags, *loads), err); err != nil {
		return err
	}
	s, err := newStudy(ctx, o.dir, o.workers)
	if err != nil {
		return err
	}
	m, err := newMatrix(&o)
	if err != nil {
		return err
	}
	for _, load := range o.loads {
		for _, set := range append([]setup{shipped, expert}, tries...) {
			if err := add(m, set, load); err != nil {
				return err
			}
		}
	}
	if err := m.run(ctx, s); err != nil {
		return err
	}
	for _, load := range o.loads {
		fmt.Fprintf(w, "Load %g\n\n", load)
		table(m, w, load)
	}
	return nil
}
