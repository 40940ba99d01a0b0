package slurmplug

import (
	"context"
	"iter"
	"slices"
	"strings"
)

// QOS lists the names of every quality of service. Without slurmdbd it is an
// error.
func (c *Client) QOS(ctx context.Context) ([]string, error) {
	out, err := c.readLines(ctx, "sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=Name")
	if err != nil {
		return nil, err
	}
	return parseQOS(string(out))
}

func parseQOS(out string) ([]string, error) {
	var all []string
	for line := range strings.Lines(out) {
		name := strings.TrimSuffix(line, "\n")
		if name == "" || strings.Contains(name, "|") {
			return nil, doubtful("sacctmgr show qos", "%q is no name", firstLine([]byte(line)))
		}
		if slices.Contains(all, name) {
			return nil, doubtful("sacctmgr show qos", "%.40q comes twice", name)
		}
		all = append(all, name)
	}
	return all, nil
}

// listOf splits at commas; nil for "".
func listOf(s string) []string {
	if isUnset(s) {
		return nil
	}
	return strings.Split(s, ",")
}

// EachQOS goes through the QOS of a job, of which a pending one may have several since
// 24.11: "te,normal".
func EachQOS(list string) iter.Seq[string] { return strings.SplitSeq(list, ",") }
