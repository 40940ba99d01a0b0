package slurmplug

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Nodes reads every node, with the GRES in use.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	return query(ctx, c, parseNodes, "scontrol", "--all", "--oneliner", "--details", "show", "node")
}

// parseNodes reads one node from each line that begins with NodeName=. A line
// that does not is the rest of a reason with a newline in it. A node that cannot be
// read keeps its name alone.
func parseNodes(out []byte) ([]Node, error) {
	const first = "NodeName="
	nodes := make([]Node, 0, bytes.Count(out, []byte(first)))
	seen := make(map[string]bool, cap(nodes))
	p := nodeParser{interner{}, map[string][]string{}, map[string][]Gres{}}
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte(first)) {
			if len(nodes) == 0 && len(bytes.TrimSpace(line)) > 0 {
				return nil, doubtful("scontrol show node", "begins with %q", clip(line))
			}
			continue
		}
		nodes = append(nodes, Node{})
		n := &nodes[len(nodes)-1]
		if err := p.node(n, line); err != nil {
			*n = Node{Name: nodeName(line), Unread: err.Error()}
		}
		if seen[n.Name] {
			return nil, doubtful("scontrol show node", "node %.40q comes twice", n.Name)
		}
		seen[n.Name] = true
	}
	if len(nodes) == 0 {
		return nil, doubtful("scontrol show node", "no node in it")
	}
	if err := mostlyRead(nodes, func(n *Node) string { return n.Unread }); err != nil {
		return nil, doubtful("scontrol show node", "%w", err)
	}
	return nodes, nil
}

// nodeName is the name at the beginning of a line.
func nodeName(line []byte) string {
	name, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("NodeName=")), []byte(" "))
	return string(bytes.TrimSpace(name))
}

// nodeParser keeps what many nodes have in common. Slices are shared between
// Nodes.
type nodeParser struct {
	strings interner
	lists   map[string][]string
	gres    map[string][]Gres
}

func ownerOf(value []byte) string {
	if owner := string(value); !isUnset(owner) {
		return owner
	}
	return ""
}

// loadOf reads a CPULoad; it is "N/A" of a node that does not answer.
func loadOf(value []byte) (load float64, known bool) {
	load, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(load >= 0 && load < 1e6) {
		return 0, false
	}
	return load, true
}

// node reads the words KEY=VALUE of one line. Name and state count where they
// first stand, and nothing counts behind Reason, which is free text.
func (p *nodeParser) node(n *Node, line []byte) error {
	total, memory, effective, special := 0, 0, false, int64(0) // how often a node's CPUs and memory stand there
	rest := bytes.TrimRight(line, "\n")
	for len(rest) > 0 {
		if text, ok := bytes.CutPrefix(rest, []byte("Reason=")); ok {
			n.Reason = string(bytes.TrimSpace(text))
			break
		}
		var word []byte
		word, rest, _ = bytes.Cut(rest, []byte(" "))
		at := bytes.IndexByte(word, '=')
		if at < 0 {
			continue // a word of OS=
		}
		value := word[at+1:]
		var err error
		switch string(word[:at]) {
		case "NodeName":
			if n.Name == "" {
				n.Name = string(value)
			}
		case "State":
			if n.State == nil {
				n.State = p.state(value)
			}
		case "AvailableFeatures":
			n.Available = p.list(value)
		case "ActiveFeatures":
			n.Features = p.list(value)
		case "Partitions":
			n.Partitions = p.list(value)
		case "CPUTot":
			total++
			if !effective {
				n.CPUs, err = nodeNumber[int](value)
			}
		case "CPUEfctv":
			effective = true
			n.CPUs, err = nodeNumber[int](value)
		case "ThreadsPerCore":
			n.Threads, err = nodeNumber[int](value)
		case "CoresPerSocket":
			n.SocketCPUs, err = nodeNumber[int](value)
		case "CPUAlloc":
			n.CPUsAlloc, err = nodeNumber[int](value)
		case "RealMemory":
			memory++
			n.RealMB, err = nodeNumber[int64](value)
		case "MemSpecLimit": // memory of slurmd and the system, which no job gets
			special, err = nodeNumber[int64](value)
		case "CPULoad":
			n.Load, n.LoadKnown = loadOf(value)
		case "TmpDisk":
			n.TmpMB, err = nodeNumber[int64](value)
		case "Owner":
			n.Owner = ownerOf(value)
		case "AllocMem":
			n.MemAllocMB, err = nodeNumber[int64](value)
		case "Gres":
			n.Gres, err = p.gresList(value)
			n.Bound = bytes.Contains(value, []byte("(S:"))
		case "Weight":
			n.Weight, err = nodeNumber[int](value)
		case "RestrictedCoresPerGPU": // "2(gpu/a100:0-7)"
			count, _, _ := bytes.Cut(value, []byte("("))
			n.GPUCores, err = nodeNumber[int](count)
		case "GresUsed":
			n.GresUsed, err = p.gresList(value)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", word[:at], err)
		}
	}
	if n.Name == "" || n.State == nil || total != 1 || memory != 1 {
		return fmt.Errorf("NodeName, State, CPUTot or RealMemory is missing, or comes twice, in %q", clip(line))
	}
	n.Threads, n.MemMB = max(n.Threads, 1), max(n.RealMB-special, 0)
	n.SocketCPUs *= n.Threads
	return nil
}

func nodeNumber[T int | int64](value []byte) (T, error) {
	n, err := parseUint(value, math.MaxInt64/2)
	return T(n), err
}

// state splits "IDLE+DRAIN". Before 22.05 flags were also marks behind the
// base state: "IDLE*" does not respond.
func (p *nodeParser) state(value []byte) []string {
	key := string(value)
	if s, known := p.lists["State="+key]; known {
		return s
	}
	words := strings.Split(key, "+")
	if base := strings.TrimRight(words[0], "*~#!%$@^-"); base != words[0] {
		if strings.Contains(words[0], "*") {
			words = append(words, "NOT_RESPONDING")
		}
		words[0] = base
	}
	p.lists["State="+key] = words
	return words
}

func (p *nodeParser) list(value []byte) []string {
	if unsetBytes(value) {
		return nil
	}
	l, known := p.lists[string(value)]
	if !known {
		l = strings.Split(string(value), ",")
		p.lists[string(value)] = l
	}
	return l
}

func (p *nodeParser) gresList(value []byte) ([]Gres, error) {
	g, known := p.gres[string(value)]
	if !known {
		var err error
		if g, err = ParseGres(string(value)); err != nil {
			return nil, err
		}
		p.gres[string(value)] = g
	}
	return g, nil
}
