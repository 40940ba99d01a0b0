package slurmplug

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Switches is the lever on how many leaf switches a waiting job may lie on, and how long
// Slurm waits for so few. Its values are those of SwitchesText.
const Switches Lever = "Switches"

// NoSwitches is the value of the lever for a job that takes any number of switches.
const NoSwitches = "0@0"

// SwitchesText is a value of the lever: so many switches at most, for so long, in whole
// minutes as scontrol takes it. A number of 0 is NoSwitches.
func SwitchesText(count int, wait time.Duration) string {
	if count == 0 {
		return NoSwitches
	}
	minutes, seconds := wait/time.Minute, wait%time.Minute/time.Second
	if seconds != 0 { // not priod's: Slurm cuts waits at max_switch_wait
		return fmt.Sprintf("%d@%d:%02d", count, minutes, seconds)
	}
	return fmt.Sprintf("%d@%d", count, minutes)
}

// ParseSwitches reads a value of the lever in whole minutes.
func ParseSwitches(text string) (count int, wait time.Duration, err error) {
	number, minutes, whole := strings.Cut(text, "@")
	n, err1 := parseUint([]byte(number), math.MaxInt32)
	m, err2 := parseUint([]byte(minutes), math.MaxInt32)
	if !whole || err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("switches %.40q: want COUNT@MINUTES", text)
	}
	return int(n), time.Duration(m) * time.Minute, nil
}

// Switches reads what waiting jobs ask of switches, by Slurm's own ids of records, as
// values of the lever. Jobs that are gone are left out.
func (c *Client) Switches(ctx context.Context, raw ...uint32) (map[uint32]string, error) {
	able, err := c.Abilities(ctx)
	if err != nil {
		return nil, err
	}
	s := c.nonce()
	format := "JobID:" + s.field + ",ReqSwitch:" + s.field + ",Wait4Switch:" + s.end
	out, err := c.read(ctx, "squeue", append(able.squeueArgs("--jobs="+idList(raw)), "-O", format)...)
	if isNoJob(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := table{name: "squeue"}
	all, err := parseSwitches(out, s, &t)
	c.leave(&t, err)
	return all, err
}

func parseSwitches(out []byte, s separators, t *table) (map[uint32]string, error) {
	all := map[uint32]string{}
	var fields [3][]byte
	read := func(record []byte) error {
		fields[0] = record
		if err := s.cut(record, fields[:]); err != nil {
			return err
		}
		id, err := parseUint(fields[0], math.MaxUint32)
		if err != nil {
			return err
		}
		count, err := parseUint(fields[1], math.MaxUint32)
		if err != nil {
			return fmt.Errorf("job %d: ReqSwitch: %w", id, err)
		}
		if strconv.FormatUint(count, 10) == noVal {
			count = 0
		}
		wait, err := ParseTimeLimit(string(fields[2]))
		if err != nil {
			return fmt.Errorf("job %d: Wait4Switch: %w", id, err)
		}
		all[uint32(id)] = SwitchesText(int(count), max(wait, 0))
		return nil
	}
	err := s.each(out, 0, func(record []byte) error {
		err := read(record)
		t.row(string(fields[0]), err)
		return nil
	})
	if err != nil {
		return nil, doubtful("squeue", "%w", err)
	}
	if err := t.read(); err != nil {
		return nil, err
	}
	return all, nil
}

// LeafSwitches reads the leaf switch of each node. It is nil where Slurm has no
// tree of switches.
func (c *Client) LeafSwitches(ctx context.Context, conf Config) (map[string]string, error) {
	if !conf.HasSwitches() {
		return nil, nil
	}
	return rowsOf(ctx, c, "scontrol show topology", parseTopology, "scontrol", "show", "topology")
}

// parseTopology reads the leaf switches of "SwitchName=s1 Level=0 ... Nodes=n[1-4]".
func parseTopology(out []byte, t *table) (map[string]string, error) {
	leaves := map[string]string{}
	for line := range bytes.Lines(out) {
		values := map[string]string{}
		for word := range strings.FieldsSeq(string(line)) {
			key, value, _ := strings.Cut(word, "=")
			values[key] = value
		}
		if values["SwitchName"] == "" || values["Level"] != "0" {
			continue
		}
		nodes, err := ExpandHosts(values["Nodes"])
		t.row(values["SwitchName"], err)
		for _, n := range nodes {
			leaves[n] = values["SwitchName"]
		}
	}
	if err := t.read(); err != nil {
		return nil, err
	}
	if len(leaves) == 0 {
		return nil, doubtful("scontrol show topology", "no leaf switch in it")
	}
	return leaves, nil
}

// HasSwitches reports whether Slurm knows a tree of switches.
func (c Config) HasSwitches() bool { return strings.Contains(c.Get("TopologyPlugin"), "tree") }

// MaxSwitchWait is the longest time that Slurm lets a job wait for its switches: a longer
// one is cut to it.
func (c Config) MaxSwitchWait() time.Duration {
	const usual = 5 * 60
	return time.Duration(c.scheduler("max_switch_wait", usual)) * time.Second
}
