package main

import (
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

// combined reads the options of a command that tries configurations on the combined workload.
func (o *options) combined(command string, args []string) (tries []setup, err error) {
	flags, configs := o.flags(command)
	flags.IntVar(&o.seeds, "seeds", 5, "`NUMBER` of seeds")
	flags.IntVar(&o.jobs, "jobs", 3000, "`NUMBER` of jobs of each trace")
	loads := flags.String("loads", "0.9", "loads, with commas")
	if err := flags.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if err := o.check(flags, *loads); err != nil {
		return nil, err
	}
	return tried(*configs)
}

// startCombined measures the profile, or what is tried in place of it, on the combined workload, and prints rows as those of
// docs/evidence/all-four.md.
func startCombined(ctx context.Context, args []string, w io.Writer) error {
	var o options
	tries, err := o.combined("combined", args)
	if err != nil {
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
			if err := m.add(set, load, "", calm); err != nil {
				return err
			}
		}
	}
	if err := m.run(ctx, s); err != nil {
		return err
	}
	for _, load := range o.loads {
		fmt.Fprintf(w, "Load %g\n\n", load)
		m.table(w, load)
	}
	return nil
}
