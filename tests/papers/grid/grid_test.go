package grid

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/simulate/sweep"
)

const study = `
title = "Backfill under load"
metrics = ["mean_wait_s"]
[base]
generate = "fitgpp --load={load}"
nodes = ["2:a100:8", "4:v100:8"]
[grid]
backfill = ["none", "easy"]
load = [0.7, 1.0]
seed = [1, 2]
`

func load(t *testing.T) *Study {
	t.Helper()
	path := filepath.Join(t.TempDir(), "study.toml")
	if err := os.WriteFile(path, []byte(study), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPointsAreTheGridInTheFilesOrder(t *testing.T) {
	points := load(t).Points()
	if len(points) != 8 {
		t.Fatalf("%d points, want 8", len(points))
	}
	want := []string{"--generate=fitgpp --load=1", "--nodes=2:a100:8", "--nodes=4:v100:8", "--backfill=none", "--seed=2"}
	if diff := cmp.Diff(want, points[3].Args); diff != "" {
		t.Error(diff)
	}
	keys := map[string]bool{}
	for _, p := range points {
		keys[p.Key] = true
	}
	if len(keys) != len(points) {
		t.Error("two points share a key")
	}
}

func TestBadStudiesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[base]\na = 1":                  "no [grid]",
		"[grid]\na = []":                 "grid.a has no values",
		"[grid]\na = [[1]]":              "list within a list",
		"[base]\na = 1\n[grid]\na = [1]": "stands in [base] and in [grid]",
		"grids = 1\n[grid]\na = [1]":     `unknown key "grids"`,
		"[grid]\na = [1":                 "line 2",
		"[grid]\na = 2020-01-01":         "is no text",
		"[grid]\nseed = [" + many(400) + "]\nb=[" + many(400) + "]": "more than 100000 points",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}

// Keys of priod.toml are axes, however TOML writes them.
func TestKeysOfPriodToml(t *testing.T) {
	s, err := parse("[base]\n\"ranking.order\" = \"owed\"\n[grid]\npreemption.max_evictions = [1, 2]\n[grid.steering]\nwait_weight = [0.5]\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--set=ranking.order=owed", "--set=preemption.max_evictions=2", "--set=steering.wait_weight=0.5"}
	if points := s.Points(); len(points) != 2 || cmp.Diff(want, points[1].Args) != "" {
		t.Errorf("%+v", points)
	}
}

func many(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint(i)
	}
	return strings.Join(words, ",")
}

func TestStoppedStudyGoesOn(t *testing.T) {
	s := load(t)
	points := s.Points()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var runs atomic.Int64
	r := &sweep.Runner{Dir: filepath.Join(t.TempDir(), "results"), Version: "1", Workers: 2,
		Simulate: func(_ context.Context, args []string) (map[string]float64, error) {
			if runs.Add(1) == 3 {
				stop()
			}
			var v float64
			if slices.Contains(args, "--seed=2") {
				v = 10
			}
			return map[string]float64{"mean_wait_s": v}, nil
		}}
	if err := r.Run(ctx, points); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped study: %v", err)
	}
	before := runs.Load()
	if before >= int64(len(points)) {
		t.Fatalf("all %d points ran although the study was stopped", before)
	}
	if err := r.Run(context.Background(), points); err != nil {
		t.Fatal(err)
	}
	if n := runs.Load(); n != int64(len(points)) {
		t.Errorf("%d simulations for %d points: some ran twice or never", n, len(points))
	}
	rows, err := s.Rows(r, points)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 || rows[0].Runs != 2 || rows[0].Mean["mean_wait_s"] != 5 {
		t.Errorf("rows: %+v", rows)
	}
	if at := s.Scale(); at != 1 {
		t.Errorf("x axis is question %d, want 1 (load)", at)
	}
	r.Version = "2"
	missing, err := r.Missing(points)
	if err != nil || len(missing) != len(points) {
		t.Errorf("results of another version count: %d missing, %v", len(missing), err)
	}
}

func TestOneFailureStopsNothing(t *testing.T) {
	points := load(t).Points()
	done := 0
	r := &sweep.Runner{Dir: t.TempDir(), Workers: 3, Done: func(sweep.Point, error) { done++ },
		Simulate: func(_ context.Context, args []string) (map[string]float64, error) {
			if slices.Contains(args, "--generate=fitgpp --load=0.7") {
				return nil, errors.New("stuck")
			}
			return map[string]float64{}, nil
		}}
	err := r.Run(context.Background(), points)
	if err == nil || strings.Count(err.Error(), "stuck") != 4 {
		t.Errorf("error %v, want four failures", err)
	}
	if done != len(points) {
		t.Errorf("%d points reported, want %d", done, len(points))
	}
	missing, err := r.Missing(points)
	if err != nil || len(missing) != 4 {
		t.Errorf("%d points missing, %v; want 4", len(missing), err)
	}
}

func TestDamagedResultSaysWhatToDo(t *testing.T) {
	points := load(t).Points()
	r := &sweep.Runner{Dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(r.Dir, points[0].Key+".json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Missing(points); err == nil || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("error %v", err)
	}
}
