package slurmplug

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
)

// Partitions reads every partition, hidden ones too.
func (c *Client) Partitions(ctx context.Context) ([]Partition, error) {
	return rowsOf(ctx, c, "scontrol show partition", parsePartitions, "scontrol", "--all", "--oneliner", "show", "partition")
}

// parsePartitions leaves out what has no name or state.
func parsePartitions(out string, t *table) ([]Partition, error) {
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
		if p.Name == "" || p.State == "" {
			t.row(string(firstLine([]byte(line))), err)
			continue
		}
		if t.rows++; err != nil {
			p.Unread = err.Error()
		}
		if seen[p.Name] {
			return nil, doubtful("scontrol show partition", "%.40q comes twice", p.Name)
		}
		seen[p.Name] = true
		all = append(all, p)
	}
	if err := t.read(); err != nil {
		return nil, err
	}
	if all == nil {
		return nil, doubtful("scontrol show partition", "no partition in it")
	}
	if err := mostlyRead(all, func(p *Partition) string { return p.Unread }); err != nil {
		return nil, doubtful("scontrol show partition", "%w", err)
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
	for key, list := range map[string]*[]string{
		"AllowAccounts": &p.Accounts, "DenyAccounts": &p.NotAccounts, "AllowQos": &p.AllowsQOS, "DenyQos": &p.NotQOS, "AllowGroups": &p.Groups,
	} {
		if value := words[key]; !isUnset(value) && value != "ALL" {
			*list = strings.Split(value, ",")
		}
	}
	p.PreemptMode = words["PreemptMode"]
	for key, count := range map[string]*int{"MinNodes": &p.MinNodes, "MaxNodes": &p.MaxNodes, "PriorityJobFactor": &p.JobFactor} {
		if n, err := parseUint(words[key], math.MaxInt32); err == nil {
			*count = int(n)
		}
	}
	for _, key := range []string{"MaxCPUsPerNode", "MaxCPUsPerSocket", "MaxMemPerNode", "MaxMemPerCPU"} {
		if value := words[key]; value != "" && value != "UNLIMITED" {
			p.SizeLimit = key + "=" + value
		}
	}
	if n, err := parseUint(words["MaxCPUsPerNode"], math.MaxInt32); err == nil {
		p.MaxNodeCPUs = int(n)
	}
	if n, err := parseUint(words["DefMemPerNode"], math.MaxInt32); err == nil {
		p.DefNodeMem = int64(n)
	}
	if value := words["MaxCPUsPerSocket"]; value != "" && value != "UNLIMITED" {
		p.NodeLimit = "MaxCPUsPerSocket"
	}
	if words["ExclusiveUser"] == "YES" || words["Exclusive"] == "USER" {
		p.NodeLimit = "ExclusiveUser"
	}
	p.LeastLoaded = words["LLN"] == "YES"
	if p.WholeNodes = wholeNodes(words); p.WholeNodes != "" {
		p.SizeLimit = p.WholeNodes
	}
	if p.Name == "" || p.State == "" {
		return p, fmt.Errorf("PartitionName or State is missing")
	}
	p.MaxTime, err = ParseTimeLimit(words["MaxTime"])
	if err != nil {
		p.MaxTime, err = Unlimited, fmt.Errorf("MaxTime: %w", err)
	}
	limit, failed := ParseTimeLimit(words["DefaultTime"])
	if p.DefaultTime = limit; failed != nil {
		p.DefaultTime, err = 0, cmp.Or(err, fmt.Errorf("DefaultTime: %w", failed))
	}
	tier, failed := parseUint(words["PriorityTier"], math.MaxUint16)
	if p.PriorityTier = int(tier); failed != nil {
		err = cmp.Or(err, fmt.Errorf("PriorityTier: %w", failed))
	}
	return p, err
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
