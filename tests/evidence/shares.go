package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"slurmprio/priod/simulate"
)

// sharedWeek is a week of Philly with accounts that own shares, as gen.py of the data writes it.
type sharedWeek struct {
	day      string
	folder   string
	accounts []ownedShare
	jobs     map[string]*sharedJob // by id
	runs     map[string]*run       // by the names of shareSystems
	alone    []*run                // of a private cluster for each account
}

// ownedShare is what one account owns.
type ownedShare struct {
	account     string
	nodes, gpus int
}

// sharedJob is a row of a week's trace.
type sharedJob struct {
	account string
	tag     string // be, te, untagged: it does not agree to leave
	gpus    int
	there   bool // it ran when the week began
}

// shareSystems are the columns of the tables: the order of priod simulate, and the profile with or without shares.
var shareSystems = []struct {
	name, order string
	shares      bool
}{
	{"without", "", false}, {"with", "", true}, {simulate.Quotas, simulate.Quotas, true}, {simulate.Owners, simulate.Owners, true},
}

// startShares measures guaranteed shares beside no shares, GrpTRES and owners' partitions.
func startShares(ctx context.Context, args []string, w io.Writer) error {
	var o options
	flags := flag.NewFlagSet("evidence shares", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "bin/evidence", "results are kept in this `FOLDER`")
	flags.IntVar(&o.workers, "workers", 2, "`NUMBER` of simulations at a time")
	flags.IntVar(&o.seeds, "seeds", 2, "`NUMBER` of seeds of the combined workload")
	flags.IntVar(&o.jobs, "jobs", 3000, "`NUMBER` of jobs of each of its traces")
	data := flags.String("data", "../shared/data/shares", "`FOLDER` of gen.py, which makes the weeks")
	days := flags.String("days", "33,57,60,75,84,92", "steady weeks from these `DAYS` on, with commas")
	set := flags.String("set", "", "`LINES` of priod.toml beside the shares")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	if err := o.check(flags, "0.9"); err != nil {
		return err
	}
	s, err := newStudy(ctx, o.dir, o.workers)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, sharesHead)
	sums := newSums()
	for day := range strings.SplitSeq(*days, ",") {
		k, err := openSharedWeek(ctx, *data, o.dir, day)
		if err != nil {
			return err
		}
		if err := s.all(ctx, k.allRuns(*set+"\n")); err != nil {
			return err
		}
		f, err := k.figures()
		if err != nil {
			return err
		}
		fmt.Fprintln(w, f.row("week "+day))
		sums.add(f)
	}
	f, accounts, err := combinedShares(ctx, s, &o, *set+"\n")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n\n%s\n%s", f.row("combined"), sums.table(), accounts)
	return nil
}

// openSharedWeek has gen.py make a week, unless its files are there, and reads them.
func openSharedWeek(ctx context.Context, data, dir, day string) (*sharedWeek, error) {
	if _, err := strconv.Atoi(day); err != nil {
		return nil, fmt.Errorf("%w: --days %q: want whole numbers", errUsage, day)
	}
	k := &sharedWeek{day: day, folder: filepath.Join(dir, "shares-"+day), jobs: map[string]*sharedJob{}, runs: map[string]*run{}}
	if _, err := os.Stat(filepath.Join(k.folder, "shares.csv")); err != nil {
		out, err := exec.CommandContext(ctx, "python3", filepath.Join(data, "gen.py"), day, k.folder, "steady").CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("gen.py %s: %w\n%s", day, err, out)
		}
	}
	err := eachRow(filepath.Join(k.folder, "shares.csv"), func(row map[string]string) error {
		nodes, err := strconv.Atoi(row["nodes"])
		k.accounts = append(k.accounts, ownedShare{row["account"], nodes, 8 * nodes})
		return err
	})
	return k, cmp.Or(err, eachRow(filepath.Join(k.folder, "all.csv"), func(row map[string]string) error {
		gpus, err := strconv.Atoi(row["gpus"])
		k.jobs[row["job_id"]] = &sharedJob{account: row["account"], tag: row["type"], gpus: gpus, there: strings.HasPrefix(row["job_id"], "w")}
		return err
	}))
}

// eachRow reads a CSV file with a head.
func eachRow(path string, take func(map[string]string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) == 0 {
		return fmt.Errorf("%s: no rows", path)
	}
	for i, fields := range rows[1:] {
		row := map[string]string{}
		for c, name := range rows[0] {
			row[name] = fields[c]
		}
		if err := take(row); err != nil {
			return fmt.Errorf("%s: row %d: %w", path, i+2, err)
		}
	}
	return nil
}

// sharesTOML are the [[share]] tables of accounts.
func sharesTOML(accounts []ownedShare) string {
	var b strings.Builder
	for _, a := range accounts {
		fmt.Fprintf(&b, "[[share]]\naccount = %q\ngpus = %d\n", a.account, a.gpus)
	}
	return b.String()
}

// allRuns are those of a week; set are lines of priod.toml for the run with shares. Jobs larger than their account's quota
// never start: that run is without them.
func (k *sharedWeek) allRuns(set string) (all []*run) {
	moves := []string{"--backfill", "easy", "--prolog", "10s", "--restart-cost", "60s", "--nodes"}
	nodes := 0
	for _, a := range k.accounts {
		nodes += a.nodes
		alone := &run{name: "shares-" + k.day + "-alone-" + a.account, trace: filepath.Join(k.folder, "vc-"+a.account+".csv")}
		alone.flags = slices.Concat(shipped.flags, moves, []string{fmt.Sprintf("%d:gpu:8:64:512000", a.nodes)})
		k.alone = append(k.alone, alone)
	}
	for _, x := range shareSystems {
		r := &run{name: "shares-" + k.day + "-" + x.name, config: balanced, trace: filepath.Join(k.folder, "all.csv")}
		if x.shares {
			r.config += set + sharesTOML(k.accounts)
		}
		r.flags = slices.Concat(moves, []string{fmt.Sprintf("%d:gpu:8:64:512000", nodes)})
		if x.order != "" {
			r.flags = append(r.flags, "--order", x.order)
		}
		if x.order == simulate.Quotas {
			r.trace = filepath.Join(k.folder, "fit.csv")
		}
		k.runs[x.name], all = r, append(all, r)
	}
	return append(all, k.alone...)
}

// combinedGPUs are what the six accounts of the combined workload own.
var combinedGPUs = []int{48, 32, 16, 16, 16, 16}

// combinedShares measures the combined workload at load 0.9 with accounts of unequal shares, and says how much longer jobs of
// each account take than by Slurm's fair share.
func combinedShares(ctx context.Context, s *study, o *options, set string) (*sharesFigures, string, error) {
	m, err := newMatrix(o)
	if err != nil {
		return nil, "", err
	}
	var accounts []ownedShare
	for i, gpus := range combinedGPUs {
		accounts = append(accounts, ownedShare{fmt.Sprintf("acc%d", i), gpus / 8, gpus})
	}
	tables := sharesTOML(accounts)
	fair := setup{name: "shares-fair", config: tables, flags: []string{"--order", simulate.FairShare}}
	for _, set := range []setup{profile, {name: "shares-with", config: balanced + set + tables}, fair} {
		if err := m.add(set, 0.9, "", calm); err != nil {
			return nil, "", err
		}
	}
	for _, c := range m.cells {
		if err := s.all(ctx, c.runs); err != nil {
			return nil, "", err
		}
	}
	return m.sharesOf(accounts)
}
