// Package fit asks a real Slurm and priod the same question: does this job start now, and does it
// start once these jobs have left. A case is a small site of its own: nodes, a partition, jobs that
// run there, and one trial-and-error job that waits. Many cases share one slurmctld, each with
// nodes and a partition of its own, so that some twenty are decided at a time:
//
//	case_test.go      a case as text
//	generate_test.go  random cases
//	site_test.go      cases as one configuration of a lab
//	judge_test.go     what Slurm does with them
//	priod_test.go     what priod says of them, by its own reads; nothing else here knows priod
//	shrink_test.go    a faulty case without all that the fault does not need
//	fit_test.go       the differential, and the table of cases that once went wrong
package fit

import (
	"fmt"
	"slices"
	"strings"
)

// Case is one question. In all texts "@" stands for the case's own prefix: nodes are @a1, @b1, @c1, a
// licence may be @lic.
type Case struct {
	Name      string
	Select    string   // SelectTypeParameters
	Nodes     []string // attributes in slurm.conf, CPUs and RealMemory among them; State=DRAIN drains it after the start
	Gres      []string // lines of gres.conf beyond NodeName, "@a1 Name=gpu File=/dev/gpu[0-3]"; none: made of Gres=
	Partition string   // attributes
	QOS       string   // what sacctmgr sets; "": the default QOS
	Licences  string   // "@lic:2"
	Running   []Run    // in the order of their submission; those that Slurm does not start are left out
	Asks      string   // sbatch's options of the waiting job
	Expect    string   // in testdata: what both have to say, "fits", "room" (once victims left) or "stays"; "": anything on which they agree
}

// Run is a running job.
type Run struct {
	Consents bool
	Asks     string
}

// hardware is all of a case that stands in the configuration: cases that share it can be decided one after
// the other on one set of nodes.
func (c *Case) hardware() string {
	h := *c
	h.Name, h.Running, h.Asks, h.Expect = "", nil, "", ""
	return h.String()
}

// String is the case as text, as parseCases reads it.
func (c *Case) String() string {
	var b strings.Builder
	line := func(key, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s %s\n", key, text)
		}
	}
	line("case", c.Name)
	line("select", c.Select)
	for _, n := range c.Nodes {
		line("node", n)
	}
	for _, g := range c.Gres {
		line("gres", g)
	}
	line("partition", c.Partition)
	line("qos", c.QOS)
	line("licences", c.Licences)
	for _, r := range c.Running {
		line(map[bool]string{true: "leaves", false: "stays"}[r.Consents], r.Asks)
	}
	line("asks", c.Asks)
	line("expect", c.Expect)
	return b.String()
}

// parseCases reads cases; a line "case NAME" begins each, and "#" begins a comment.
func parseCases(text string) (cases []*Case, err error) {
	var c *Case
	for number, l := range strings.Split(text, "\n") {
		key, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
		switch {
		case key == "" || strings.HasPrefix(key, "#"):
			continue
		case key == "case":
			c = &Case{Name: rest, Select: "CR_Core_Memory"}
			cases = append(cases, c)
			continue
		case c == nil:
			return nil, fmt.Errorf("line %d: no case begins before %q", number+1, key)
		}
		switch key {
		case "select":
			c.Select = rest
		case "node":
			c.Nodes = append(c.Nodes, rest)
		case "gres":
			c.Gres = append(c.Gres, rest)
		case "partition":
			c.Partition = rest
		case "qos":
			c.QOS = rest
		case "licences":
			c.Licences = rest
		case "leaves", "stays":
			c.Running = append(c.Running, Run{key == "leaves", rest})
		case "asks":
			c.Asks = rest
		case "expect":
			c.Expect = rest
		default:
			return nil, fmt.Errorf("line %d: what is %q?", number+1, key)
		}
	}
	return cases, nil
}

// nodeLetters name the nodes of a case.
const nodeLetters = "abcd"

// of is a text of the case in the place with this prefix.
func of(text, prefix string) string { return strings.ReplaceAll(text, "@", prefix) }

// attribute takes KEY=VALUE out of a line of slurm.conf.
func attribute(line, key string) (value, rest string) {
	words := strings.Fields(line)
	at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, key+"=") })
	if at < 0 {
		return "", line
	}
	value = strings.TrimPrefix(words[at], key+"=")
	return value, strings.Join(slices.Delete(words, at, at+1), " ")
}
