package slurmplug

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// Partitions reads every partition, hidden ones too.
func (c *Client) Partitions(ctx context.Context) ([]Partition, error) {
	return query(ctx, c, parsePartitions, "scontrol", "--all", "--oneliner", "show", "partition")
}

func parsePartitions(out string) ([]Partition, error) {
	var all []Partition
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		words := map[string]string{}
		for word := range strings.FieldsSeq(line) {
			if key, value, ok := strings.Cut(word, "="); ok && words[key] == "" {
				words[key] = value
			}
		}
		p, err := partition(words)
		if err != nil {
			return nil, doubtful("scontrol show partition", "%q: %w", firstLine([]byte(line)), err)
		}
		if seen[p.Name] {
			return nil, doubtful("scontrol show partition", "%.40q comes twice", p.Name)
		}
		seen[p.Name] = true
		all = append(all, p)
	}
	if all == nil {
		return nil, doubtful("scontrol show partition", "no partition in it")
	}
	return all, nil
}

func partition(words map[string]string) (p Partition, err error) {
	p = Partition{Name: words["PartitionName"], State: words["State"], Default: words["Default"] == "YES"}
	for key, text := range map[string]*string{"Nodes": &p.Nodes, "QoS": &p.QOS, "JobDefaults": &p.Defaults} {
		if *text = words[key]; isUnset(*text) {
			*text = ""
		}
	}
	for _, key := range []string{"MaxCPUsPerNode", "MaxCPUsPerSocket", "MaxMemPerNode", "MaxMemPerCPU"} {
		if value := words[key]; value != "" && value != "UNLIMITED" {
			p.SizeLimit = key + "=" + value
		}
	}
	p.LeastLoaded = words["LLN"] == "YES"
	if p.WholeNodes = wholeNodes(words); p.WholeNodes != "" {
		p.SizeLimit = p.WholeNodes
	}
	if p.Name == "" || p.State == "" {
		return p, fmt.Errorf("PartitionName or State is missing")
	}
	if p.MaxTime, err = ParseTimeLimit(words["MaxTime"]); err != nil {
		return p, fmt.Errorf("MaxTime: %w", err)
	}
	if p.DefaultTime, err = ParseTimeLimit(words["DefaultTime"]); err != nil {
		return p, fmt.Errorf("DefaultTime: %w", err)
	}
	tier, err := parseUint(words["PriorityTier"], math.MaxUint16)
	if err != nil {
		return p, fmt.Errorf("PriorityTier: %w", err)
	}
	p.PriorityTier = int(tier)
	return p, nil
}

// wholeNodes is the setting that gives the jobs of a partition whole nodes.
// OverSubscribe=EXCLUSIVE and ExclusiveTopo=YES (24.05) are shown as Exclusive=NODE and
// Exclusive=TOPO since 26.05 (src/api/partition_info.c; seen on all three).
func wholeNodes(words map[string]string) string {
	for _, setting := range []string{"OverSubscribe=EXCLUSIVE", "ExclusiveTopo=YES", "Exclusive=NODE", "Exclusive=TOPO"} {
		if key, value, _ := strings.Cut(setting, "="); words[key] == value {
			return setting
		}
	}
	return ""
}
