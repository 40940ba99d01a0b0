package traces

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/workload"
)

// CommentSynergy stands above what is imported from Synergy.
const CommentSynergy = `Sensitivity curves of Synergy (OSDI 2022): seconds for one iteration with the
proportional share of CPUs and memory (3 CPUs and 62.5 GB for each GPU), and the
speed relative to it. Given by Synergy's authors (github.com/msr-fiddle/synergy;
MIT License, Copyright (c) Microsoft Corporation).
Made by: go run ./tests/papers import synergy FILE`

// synergyType is the GPU that Synergy's figures were measured on.
const synergyType = "v100"

// synergyFile is the part of sensitivity.json that is used: the profiles of
// one GPU in servers with three CPUs for each GPU.
type synergyFile struct {
	CPUs     []float64           `json:"cpu_axis_per_gpu"`
	MemGB    []float64           `json:"mem_axis_gb_per_gpu"`
	Classes  map[string][]string `json:"classes"`
	Profiles map[string]struct {
		CPUs    float64     `json:"cpus_per_gpu"`
		MemGB   float64     `json:"mem_gb_per_gpu"`
		Iter    float64     `json:"iter_time_s"`
		Speedup float64     `json:"speedup"`
		Tput    [][]float64 `json:"tput"`
	} `json:"cpu_gpu_ratio_3"`
}

// ImportSynergy reads the sensitivity profiles of Synergy (OSDI'22) as one
// JSON file, in the order of their classes.
func ImportSynergy(r io.Reader) ([]workload.Workload, error) {
	var f synergyFile
	if err := json.NewDecoder(r).Decode(&f); err != nil {
		return nil, fmt.Errorf("no sensitivity file of Synergy: %w", err)
	}
	mem := make([]int64, len(f.MemGB))
	for i, gb := range f.MemGB {
		mem[i] = megabytes(gb)
	}
	var all []workload.Workload
	for _, class := range slices.Sorted(maps.Keys(f.Classes)) {
		for _, model := range f.Classes[class] {
			p, ok := f.Profiles[model+"_1"]
			if !ok {
				return nil, fmt.Errorf("classes.%s: no profile %s_1 under cpu_gpu_ratio_3", class, model)
			}
			c := workload.Curve{IterationS: p.Iter, DemandCPUs: p.CPUs, DemandMemMB: megabytes(p.MemGB), CPUs: f.CPUs, MemMB: mem, Speed: p.Tput}
			w := workload.Workload{Name: strings.ToLower(model), Class: class, Source: SourceSynergy, Curves: map[string]workload.Curve{synergyType: c}}
			if err := w.Check(); err != nil {
				return nil, fmt.Errorf("%s_1: %w", model, err)
			}
			if got := c.Best(); math.Abs(got-p.Speedup) > 1e-9 {
				return nil, fmt.Errorf("%s_1: speedup = %v, and its table has %v at the demand", model, p.Speedup, got)
			}
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no sensitivity file of Synergy: no classes in it")
	}
	return all, nil
}

func megabytes(gb float64) int64 { return int64(math.Ceil(gb * 1024)) }
