package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slurmprio/priod/simulate"
)

// study runs priod and keeps each result under dir, named by all that it follows from, so that an
// interrupted study goes on where it stopped and one of a changed program starts over.
type study struct {
	dir     string
	priod   string // the program
	papers  string // the one of tests/papers
	version string // of their bytes
	workers int
	done    func(of int) // after each run
}

// newStudy is a study whose programs are built, which tells now and then how far it is.
func newStudy(ctx context.Context, dir string, workers int) (*study, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var count atomic.Int64
	began := time.Now()
	s := &study{dir: dir, workers: workers, done: func(of int) {
		n := count.Add(1)
		if n%20 == 0 || int(n) == of {
			fmt.Fprintf(os.Stderr, "%s: %d of %d simulations\n", time.Since(began).Round(time.Second), n, of)
		}
		if int(n) == of {
			count.Store(0) // the next set of runs
		}
	}}
	return s, s.build(ctx)
}

// build compiles priod, and the program of the papers, into dir.
func (s *study) build(ctx context.Context) error {
	sum := sha256.New()
	for path, pkg := range map[*string]string{&s.priod: "slurmprio/priod", &s.papers: "slurmprio/tests/papers"} {
		*path = filepath.Join(s.dir, filepath.Base(pkg))
		build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", "-X slurmprio/priod/config.Settable=yes", "-o", *path, pkg)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	for _, path := range []string{s.priod, s.papers} {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	s.version = string(sum.Sum(nil))
	return nil
}

// program is what a run needs: preemption that only the papers have is not priod's, nor is a window of jobs.
func (s *study) program(flags []string) string {
	if slices.Contains(flags, "--window") {
		return s.papers
	}
	if i := slices.Index(flags, "--preemption"); i >= 0 && flags[i+1] != simulate.SlurmQOS {
		return s.papers
	}
	return s.priod
}

// run is one simulation.
type run struct {
	name      string
	config    string   // priod.toml
	inputs    []string // files, beside the trace
	trace     string   // file
	flags     []string
	json, csv string // set once it is done
	series    string // the same, of GPUs in use over time; "": not wanted
}

// all does the runs that were not done before, workers at a time, and stops at the first error.
func (s *study) all(ctx context.Context, runs []*run) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *run)
	var workers sync.WaitGroup
	for range s.workers {
		workers.Go(func() {
			for r := range next {
				if err := s.one(ctx, r); err != nil {
					cancel(fmt.Errorf("%s: %w", r.name, err))
				} else {
					s.done(len(runs))
				}
			}
		})
	}
	for _, r := range runs {
		select {
		case next <- r:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// one does a run, unless its result is there.
func (s *study) one(ctx context.Context, r *run) error {
	sum := sha256.New()
	fmt.Fprintln(sum, s.version, r.config, r.flags)
	for _, path := range append([]string{r.trace}, r.inputs...) {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum.Write(text)
	}
	base := filepath.Join(s.dir, fmt.Sprintf("%s-%x", r.name, sum.Sum(nil)[:8]))
	r.json, r.csv = base+".json", base+".csv"
	if r.series != "" {
		r.series = base + "-series.csv"
	}
	if _, err := os.Stat(r.json); err == nil {
		return nil
	}
	conf := base + ".toml"
	if err := os.WriteFile(conf, []byte(r.config), 0o600); err != nil {
		return err
	}
	args := []string{"--config", conf, "simulate", "--trace", r.trace, "--json", "--jobs-out", r.csv}
	if r.series != "" {
		args = append(args, "--series-out", r.series)
	}
	if !strings.Contains(strings.Join(r.flags, " "), "--order") {
		args = append(args, "--order", "priod", "--hold", "20s")
	}
	command := exec.CommandContext(ctx, s.program(r.flags), append(args, r.flags...)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), errors.Join(err, ctx.Err()), &errs)
	}
	// The JSON comes last and whole: it tells that the run is done.
	if err := os.WriteFile(r.json+".part", out.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(r.json+".part", r.json)
}
