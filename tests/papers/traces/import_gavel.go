package traces

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"slurmprio/priod/workload"
)

// SourceGavel and SourceSynergy are the Source of what the importers make.
const (
	SourceGavel   = "gavel"
	SourceSynergy = "synergy"
)

// CommentGavel stands above what is imported from Gavel.
const CommentGavel = `Steps a second of Gavel (OSDI 2020), with all GPUs of the job, by GPU type and
number of GPUs; 0: it does not run there. Measured by Gavel's authors
(github.com/stanford-futuredata/gavel, scheduler/*throughputs.json; MIT License,
Copyright (c) 2020 Stanford Future Data Systems). The aliases are their names.
Made by: go run ./tests/papers import gavel FILE`

// gavelKey is a key of Gavel's throughput files: ('ResNet-18 (batch size 128)', 2).
var gavelKey = regexp.MustCompile(`^\('([^']+)', ([1-9][0-9]{0,5})\)$`)

// batch is the part of Gavel's job types behind the model.
var batch = regexp.MustCompile(`^(.+) \(batch size ([0-9]+)\)$`)

// gavelClasses are what Gavel's models do, by the first word of the job type.
var gavelClasses = map[string]string{
	"ResNet-18": "image", "ResNet-50": "image", "CycleGAN": "image", "LM": "language", "Transformer": "language",
	"Recommendation": "recommendation", "A3C": "reinforcement",
}

// Pair is what two workloads do on the same GPUs at the same time, steps/s of
// each; 0: they do not run together.
type Pair struct {
	GPUType        string
	GPUs           int // of each of the two
	A, B           string
	SpeedA, SpeedB float64
}

// ImportGavel reads a throughput file of Gavel (OSDI'20): for each GPU type and
// each job type with its scale factor, steps/s alone (under "null", or as a
// bare number) and together with others on the same GPUs. The pairs that it
// returns name the workloads that it returns.
func ImportGavel(r io.Reader) ([]workload.Workload, []Pair, error) {
	var byType map[string]map[string]json.RawMessage
	if err := json.NewDecoder(r).Decode(&byType); err != nil {
		return nil, nil, fmt.Errorf("no throughput file of Gavel: %w", err)
	}
	jobs := map[string]*workload.Workload{}
	var pairs []Pair
	for _, gpuType := range workload.GavelTypes {
		for _, k := range slices.Sorted(maps.Keys(byType[gpuType])) {
			name, gpus, err := parseGavelKey(k)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", gpuType, err)
			}
			alone, with, err := gavelEntry(byType[gpuType][k])
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %s: %w", gpuType, k, err)
			}
			w := jobs[name]
			if w == nil {
				w = &workload.Workload{Name: gavelName(name), Aliases: []string{name}, Source: SourceGavel, Speeds: map[string][]workload.Speed{}}
				model, _, _ := strings.Cut(name, " ")
				w.Class = gavelClasses[model]
				jobs[name] = w
			}
			w.Speeds[gpuType] = append(w.Speeds[gpuType], workload.Speed{GPUs: gpus, StepsPerS: alone})
			for _, k := range slices.Sorted(maps.Keys(with)) {
				other, n, err := parseGavelKey(k)
				if err != nil || n != gpus {
					return nil, nil, fmt.Errorf("%s: %s beside %.80q: want a job type with as many GPUs", gpuType, name, k)
				}
				if p := (Pair{gpuType, gpus, gavelName(name), gavelName(other), with[k][0], with[k][1]}); p.A <= p.B {
					pairs = append(pairs, p) // the other half says the same
				}
			}
		}
	}
	if len(jobs) == 0 {
		return nil, nil, fmt.Errorf("no throughput file of Gavel: none of the GPU types %s", strings.Join(workload.GavelTypes, ", "))
	}
	all := make([]workload.Workload, 0, len(jobs))
	for _, name := range slices.SortedFunc(maps.Keys(jobs), byModelAndBatch) {
		w := jobs[name]
		for _, s := range w.Speeds {
			slices.SortFunc(s, func(a, b workload.Speed) int { return a.GPUs - b.GPUs })
		}
		if err := w.Check(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, *w)
	}
	return all, pairs, nil
}

func parseGavelKey(k string) (name string, gpus int, err error) {
	m := gavelKey.FindStringSubmatch(k)
	if m == nil {
		return "", 0, fmt.Errorf("key %.80q: want ('JOB TYPE', SCALE FACTOR)", k)
	}
	gpus, err = strconv.Atoi(m[2])
	return m[1], gpus, err
}

// gavelEntry reads one job type's figures: a number, or an object with the
// number under "null" and a pair of numbers for each neighbour.
func gavelEntry(raw json.RawMessage) (alone float64, with map[string][2]float64, err error) {
	if json.Unmarshal(raw, &alone) == nil {
		return alone, nil, nil
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return 0, nil, err
	}
	with = make(map[string][2]float64, len(entries))
	for k, v := range entries {
		if k == "null" {
			if err := json.Unmarshal(v, &alone); err != nil {
				return 0, nil, err
			}
			continue
		}
		var two []float64
		if err := json.Unmarshal(v, &two); err != nil || len(two) != 2 {
			return 0, nil, fmt.Errorf("%.80q: want two numbers", k)
		}
		with[k] = [2]float64{two[0], two[1]}
	}
	if _, ok := entries["null"]; !ok {
		return 0, nil, errors.New(`no speed alone ("null")`)
	}
	return alone, with, nil
}

// gavelName makes a name that is valid in a tag: resnet-18-128.
func gavelName(jobType string) string {
	if m := batch.FindStringSubmatch(jobType); m != nil {
		jobType = m[1] + "-" + m[2]
	}
	return strings.ToLower(strings.ReplaceAll(jobType, " ", "-"))
}

func byModelAndBatch(a, b string) int {
	split := func(s string) (string, int) {
		if m := batch.FindStringSubmatch(s); m != nil {
			n, _ := strconv.Atoi(m[2])
			return m[1], n
		}
		return s, 0
	}
	m, x := split(a)
	n, y := split(b)
	return cmp.Or(cmp.Compare(m, n), cmp.Compare(x, y))
}
