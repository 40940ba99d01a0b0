// Package sweep runs simulations under many settings: each is done once and kept in a file of its own, so that a study continues
// where it was stopped, and its points may run anywhere that shares the folder.
package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Point is one simulation of a study.
type Point struct {
	At   []string // what tells it from the others
	Args []string // what Simulate is given
	Key  string   // names its file: a digest of Args
}

// PointOf is a point that stands for itself.
func PointOf(args []string) Point {
	sum := sha256.Sum256([]byte(strings.Join(args, "\x00")))
	return Point{At: args, Args: args, Key: hex.EncodeToString(sum[:8])}
}

// Result is what one point's simulation measured.
type Result struct {
	Args    []string           `json:"args"`
	Version string             `json:"version"` // of priod: another one's results are not mixed in
	Metrics map[string]float64 `json:"metrics"`
}

// Simulate simulates what the arguments of a point say, and returns what it measured.
type Simulate func(ctx context.Context, args []string) (map[string]float64, error)

// Runner runs points and keeps their results in a folder.
type Runner struct {
	Dir      string
	Version  string
	Workers  int
	Simulate Simulate
	Done     func(Point, error) // called after each point, never twice at once; may be nil
}

// Run runs the points that have no result yet. A point that fails stops nothing;
// all failures come back joined. A cancelled context stops between points.
func (r *Runner) Run(ctx context.Context, points []Point) error {
	missing, err := r.Missing(points)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return err
	}
	var mu sync.Mutex
	var failed []error
	var group errgroup.Group
	group.SetLimit(max(1, r.Workers))
	for _, p := range missing {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			err := r.one(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, fmt.Errorf("%v: %w", p.At, err))
			}
			if r.Done != nil {
				r.Done(p, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	return errors.Join(append(failed, ctx.Err())...)
}

func (r *Runner) one(ctx context.Context, p Point) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	measured, err := r.Simulate(ctx, p.Args)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(Result{p.Args, r.Version, measured}, "", "  ")
	if err != nil {
		return err
	}
	return replace(r.file(p), append(text, '\n'))
}

func (r *Runner) file(p Point) string { return filepath.Join(r.Dir, p.Key+".json") }

// replace writes a file whole or not at all: points run side by side, and some
// are killed.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".point-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// read returns the result of a point; false when there is none yet.
func (r *Runner) read(p Point) (Result, bool, error) {
	text, err := os.ReadFile(r.file(p))
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, false, nil
	}
	if err != nil {
		return Result{}, false, err
	}
	var res Result
	if err := json.Unmarshal(text, &res); err != nil {
		return Result{}, false, fmt.Errorf("%s: %w; delete it to run this point again", r.file(p), err)
	}
	if !slices.Equal(res.Args, p.Args) {
		return Result{}, false, fmt.Errorf("%s holds the result of %q; use another --out", r.file(p), res.Args)
	}
	return res, res.Version == r.Version, nil
}

// Missing returns the points that have no result of this version of priod.
func (r *Runner) Missing(points []Point) ([]Point, error) {
	var missing []Point
	for _, p := range points {
		_, ok, err := r.read(p)
		if err != nil {
			return nil, err
		}
		if !ok {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

// Result is what a point measured; false when this version of priod has not done it.
func (r *Runner) Result(p Point) (map[string]float64, bool, error) {
	res, known, err := r.read(p)
	return res.Metrics, known, err
}
