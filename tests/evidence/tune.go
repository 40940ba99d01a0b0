package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// tuneDays are the two months that choose, and as many that are held back.
const tuneDays = 60

// startTune has priod tune choose on two months of each log, replays the same settings on the months after them, and prints the table of
// docs/evidence/tune.md.
func startTune(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("evidence tune", flag.ContinueOnError)
	data := flags.String("data", "", "`FOLDER` of the logs")
	dir := flags.String("dir", "bin/evidence", "results are kept in this `FOLDER`")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	if *data == "" || flags.NArg() > 0 {
		return fmt.Errorf("%w: want --data FOLDER and no arguments", errUsage)
	}
	s, err := newStudy(ctx, *dir, 1)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "| log, days | jobs | goal | recommended | there, others of the blocks | months held back | best of the grid there | settings, CPU s each |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
	for i := range publicLogs {
		l := &publicLogs[i]
		jobs, err := l.read(*data)
		if err != nil {
			return err
		}
		last := jobs[len(jobs)-1].submit / 86400
		first := max(last/2-tuneDays, 0)
		for _, goal := range []string{"completion", "te-p95"} {
			chosen, err := s.tuned(ctx, l, jobs, first, min(tuneDays, last/2), goal, nil)
			if err != nil {
				return err
			}
			var try [][]string
			if chosen.Recommended != nil {
				try = [][]string{chosen.Recommended}
			}
			held, err := s.tuned(ctx, l, jobs, first+min(tuneDays, last/2), min(tuneDays, last/2), goal, try)
			if err != nil {
				return err
			}
			now, best, ours := math.NaN(), math.Inf(1), math.NaN()
			name := ""
			for _, x := range held.Settings {
				v := x.Figures[goal]
				if v == nil {
					continue
				}
				switch {
				case len(x.Set) == 0:
					now = *v
				case slices.Equal(x.Set, []string{"without priod"}):
					continue
				}
				if slices.Equal(x.Set, chosen.Recommended) || chosen.Recommended == nil && len(x.Set) == 0 {
					ours = *v
				}
				if *v < best {
					best, name = *v, strings.Join(x.Set, " ")
				}
			}
			worth := "nothing: " + chosen.Why
			if chosen.Recommended != nil {
				worth = fmt.Sprintf("%.2f for %.2f (%.0f %%)", chosen.Worth.To, chosen.Worth.From, 100*(chosen.Worth.To/chosen.Worth.From-1))
			}
			fmt.Fprintf(w, "| %s, %d to %d | %d | %s | `%s` | %s | %.2f for %.2f: **%.0f %%** of the best's gain | `%s`: %.2f | %d, %.0f |\n", l.text, first, first+min(tuneDays, last/2), chosen.Jobs, goal,
				strings.Join(chosen.Recommended, " "), worth, ours, now, 100*(now-ours)/(now-best), name, best, len(chosen.Settings), chosen.seconds/float64(len(chosen.Settings)))
		}
	}
	return nil
}

// tunedAnswer is what priod tune --json says.
type tunedAnswer struct {
	Recommended []string
	Why         string
	Jobs        int
	Worth       struct{ From, To float64 }
	Settings    []struct {
		Set     []string
		Figures map[string]*float64
	}
	seconds float64 // of CPU
}

// tuned is a study of some days of a log, on as many nodes as make its load 0.9. Jobs of less than half an hour are TE.
func (s *study) tuned(ctx context.Context, l *publicLog, jobs []weekJob, first, days int, goal string, try [][]string) (a tunedAnswer, err error) {
	draw, users, work, widest := rand.New(rand.NewPCG(uint64(first), 1)), zipf(), 0.0, 0
	rows := [][]string{{"job_id", "submit_s", "gpus", "duration_s", "limit_s", "type", "grace_s", "ckpt_s", "user", "account"}}
	for _, j := range jobs {
		if j.submit -= first * 86400; j.submit < 0 || j.submit >= days*86400 {
			continue
		}
		limit, user := int(float64(j.seconds)*(1.2+2.8*draw.Float64())), weighted(draw, users)
		work += float64(j.gpus) * float64(j.seconds)
		widest = max(widest, j.gpus)
		class, grace, ckpt := "be", "60", "1800"
		if j.te() {
			class, grace, ckpt = "te", "", ""
		}
		rows = append(rows, []string{strconv.Itoa(len(rows)), strconv.Itoa(j.submit), strconv.Itoa(j.gpus), strconv.Itoa(j.seconds), strconv.Itoa(limit), class, grace, ckpt, fmt.Sprintf("u%02d", user), fmt.Sprintf("acc%d", user%6)})
	}
	nodes := max(int(math.Ceil(work/float64(days*86400)/0.9/8)), (widest+7)/8)
	base := filepath.Join(s.dir, fmt.Sprintf("tune-%s-%d", l.name, first))
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(rows); err != nil {
		return a, err
	}
	if err := os.WriteFile(base+".csv", text.Bytes(), 0o600); err != nil {
		return a, err
	}
	args := []string{"tune", "--json", "--trace", base + ".csv", "--nodes", fmt.Sprintf("%d:gpu:8:64:512000", nodes), "--prolog", "10s", "--restart-cost", "60s", "--goal", goal, "--out", base + ".results"}
	for _, set := range try {
		args = append(args, "--try", strings.Join(set, " "))
	}
	command := exec.CommandContext(ctx, s.priod, args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return a, fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, &errs)
	}
	a.seconds = command.ProcessState.UserTime().Seconds()
	return a, json.Unmarshal(out.Bytes(), &a)
}
