package slurmplug

import (
	"fmt"
	"strings"
)

// ParseGPUOption reads the value of one of sbatch's options that ask for GPUs:
// a list of generic resources for "gres"; for the others ("gpus",
// "gpus-per-node", "gpus-per-task") TYPE:COUNT, TYPE or COUNT.
func ParseGPUOption(option, value string) ([]Gres, error) {
	if option == "gres" {
		return ParseGres(value)
	}
	all, err := ParseGres("gpu:" + value)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%.40q: want one GPU type", value)
	}
	return all, err
}

// WithGPUType names the GPU type in the value of such an option and leaves the
// rest of it.
func WithGPUType(option, value, gpuType string) (string, error) {
	all, err := ParseGPUOption(option, value)
	if err != nil {
		return "", err
	}
	words := make([]string, len(all))
	for i, g := range all {
		if g.Name == "gpu" {
			g.Type = gpuType
		}
		words[i] = g.String()
	}
	list := strings.Join(words, ",")
	if option != "gres" {
		list = strings.TrimPrefix(list, "gpu:")
	}
	return list, nil
}
