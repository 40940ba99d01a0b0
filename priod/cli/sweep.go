package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"slurmprio/priod/simulate/sweep"
)

// part picks every n-th point from k on.
func part(points []sweep.Point, text string) ([]sweep.Point, error) {
	if text == "" {
		return points, nil
	}
	first, of, _ := strings.Cut(text, "/")
	k, err1 := strconv.Atoi(first)
	n, err2 := strconv.Atoi(of)
	if err1 != nil || err2 != nil || k < 0 || k >= n {
		return nil, usagef("--part %.40q: want K/N with K from 0 to N-1", text)
	}
	var mine []sweep.Point
	for i := k; i < len(points); i += n {
		mine = append(mine, points[i])
	}
	return mine, nil
}

// pointsDone shows on a terminal how many points are done.
func pointsDone(w io.Writer, r *sweep.Runner, points []sweep.Point) (tick func(sweep.Point, error), finish func()) {
	if !isTerminal(w) {
		return nil, func() {}
	}
	missing, err := r.Missing(points)
	if err != nil || len(missing) == 0 {
		return nil, func() {}
	}
	p := mpb.New(mpb.WithOutput(w))
	bar := p.AddBar(int64(len(missing)), mpb.PrependDecorators(decor.CountersNoUnit("%d of %d points")), mpb.AppendDecorators(decor.AverageETA(decor.ET_STYLE_GO)))
	return func(sweep.Point, error) { bar.Increment() }, func() {
		bar.Abort(false)
		p.Wait()
	}
}

// submitArray has Slurm run a verb of priod as a job array, each task with --part K/N; more are options of sbatch.
func submitArray(c *cli.Context, name, dir string, tasks int, verb, more []string) error {
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err := errors.Join(err, os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	words := []string{self}
	if path := c.String("config"); path != "" {
		full, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		words = append(words, "--config", full)
	}
	words = append(words, verb...)
	for i, w := range words {
		words[i] = quote(w)
	}
	script := "exec " + strings.Join(words, " ") + fmt.Sprintf(" --part \"$SLURM_ARRAY_TASK_ID/%d\"", tasks)
	args := append([]string{"--job-name=" + name, fmt.Sprintf("--array=0-%d", tasks-1), "--output=" + filepath.Join(dir, "slurm-%A_%a.out")}, more...)
	sbatch := exec.CommandContext(c.Context, "sbatch", append(args, "--wrap="+script)...)
	if cfg.Slurm.BinDir != "" {
		sbatch.Path = filepath.Join(cfg.Slurm.BinDir, "sbatch")
		sbatch.Err = nil
	}
	sbatch.Stdout, sbatch.Stderr = c.App.Writer, c.App.ErrWriter
	if err := sbatch.Run(); err != nil {
		return fmt.Errorf("sbatch: %w", err)
	}
	return nil
}

// quote makes one word for a shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
