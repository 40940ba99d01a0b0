package slurmplug

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// QOS lists the names of every quality of service. Without slurmdbd it is an
// error.
func (c *Client) QOS(ctx context.Context) ([]string, error) {
	out, err := c.sacctmgr(ctx, "qos", "format=Name")
	if err != nil {
		return nil, err
	}
	return parseQOS(out)
}

func parseQOS(out string) (all []string, err error) {
	err = eachRow("qos", out, 1, func(f []string) error {
		if slices.Contains(all, f[0]) {
			return fmt.Errorf("%.40q comes twice", f[0])
		}
		all = append(all, f[0])
		return nil
	})
	if err != nil {
		return nil, err
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
