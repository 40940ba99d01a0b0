package slurmplug

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxHosts bounds what one host list may expand to; Slurm's own limit on a
// range is 65,536 (hostlist.c, MAX_RANGE).
const maxHosts = 200_000

// hostPart is a literal piece of a host pattern, or the ranges of a bracket.
type hostPart struct {
	literal string
	ranges  []hostRange
}

// hostRange is "lo-hi" of a bracket; numbers are padded with zeros to width.
type hostRange struct{ lo, hi, width int }

// ExpandHosts lists the hosts of "rack[1-2]n[01-03,7],login", in the order of
// scontrol show hostnames. "" and "(null)" are no hosts.
func ExpandHosts(list string) ([]string, error) {
	var hosts []string
	err := eachHostPattern(list, func(parts []hostPart, count int) {
		hosts = slices.Grow(hosts, count)
		hosts = appendHosts(hosts, "", parts)
	})
	if err != nil {
		return nil, err
	}
	return hosts, nil
}

func appendHosts(hosts []string, prefix string, parts []hostPart) []string {
	if len(parts) == 0 {
		return append(hosts, prefix)
	}
	p := &parts[0]
	if p.ranges == nil {
		return appendHosts(hosts, prefix+p.literal, parts[1:])
	}
	for _, r := range p.ranges {
		for n := r.lo; n <= r.hi; n++ {
			hosts = appendHosts(hosts, prefix+padded(n, r.width), parts[1:])
		}
	}
	return hosts
}

func padded(n, width int) string {
	s := strconv.Itoa(n)
	if len(s) < width {
		s = strings.Repeat("0", width-len(s)) + s
	}
	return s
}

func eachHostPattern(list string, visit func(parts []hostPart, count int)) error {
	if isUnset(list) {
		return nil
	}
	total := 0
	for pattern := range listItems(list) {
		parts, count, err := parseHostPattern(pattern)
		if err != nil {
			return fmt.Errorf("host list %.80q: %w", list, err)
		}
		if total += count; total > maxHosts {
			return fmt.Errorf("host list %.80q: more than %d hosts", list, maxHosts)
		}
		visit(parts, count)
	}
	return nil
}

func parseHostPattern(pattern string) (parts []hostPart, count int, err error) {
	count = 1
	for s := pattern; s != ""; {
		open := strings.IndexByte(s, '[')
		literal := s
		if open >= 0 {
			literal = s[:open]
		}
		for i := range len(literal) {
			if !isHostByte(literal[i]) {
				return nil, 0, fmt.Errorf("%.80q: %q cannot stand in a host name", pattern, literal[i])
			}
		}
		if literal != "" {
			parts = append(parts, hostPart{literal: literal})
		}
		if open < 0 {
			break
		}
		inside, tail, closed := strings.Cut(s[open+1:], "]")
		if !closed {
			return nil, 0, fmt.Errorf("%.80q: [ without ]", pattern)
		}
		s = tail
		ranges, n, err := parseHostRanges(inside)
		if err != nil {
			return nil, 0, fmt.Errorf("%.80q: %w", pattern, err)
		}
		if count *= n; count > maxHosts || len(parts) > 16 {
			return nil, 0, fmt.Errorf("%.80q: more than %d hosts", pattern, maxHosts)
		}
		parts = append(parts, hostPart{ranges: ranges})
	}
	if parts == nil {
		return nil, 0, fmt.Errorf("an empty name")
	}
	return parts, count, nil
}

func parseHostRanges(inside string) (ranges []hostRange, count int, err error) {
	for item := range strings.SplitSeq(inside, ",") {
		lo, hi, isRange := strings.Cut(item, "-")
		if !isRange {
			hi = lo
		}
		l, err1 := parseUint(lo, 1e9)
		h, err2 := parseUint(hi, 1e9)
		if err1 != nil || err2 != nil || h < l {
			return nil, 0, fmt.Errorf("%.40q is no range of numbers", item)
		}
		if count += int(h-l) + 1; count > maxHosts {
			return nil, 0, fmt.Errorf("more than %d hosts", maxHosts)
		}
		ranges = append(ranges, hostRange{int(l), int(h), len(lo)})
	}
	return ranges, count, nil
}

func isHostByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '-' || c == '_' || c == '.'
}

// CompactHosts writes hosts as a host list, "n[1-3,7]", each host once. Hosts
// are grouped by their last number; groups stand in order of appearance.
func CompactHosts(hosts []string) string {
	type group struct {
		prefix, suffix string
		numbers        []string // "" for a host without a number
	}
	var groups []group
	index := map[[2]string]int{}
	for _, h := range hosts {
		prefix, number, suffix := splitHost(h)
		key := [2]string{prefix, suffix}
		if number == "" {
			key[0], key[1] = h, "\x00" // a name of its own
		}
		i, known := index[key]
		if !known {
			i = len(groups)
			index[key] = i
			groups = append(groups, group{prefix: prefix, suffix: suffix})
		}
		groups[i].numbers = append(groups[i].numbers, number)
	}
	var b strings.Builder
	for i, g := range groups {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(g.prefix)
		if g.numbers[0] != "" {
			writeNumbers(&b, g.numbers)
		}
		b.WriteString(g.suffix)
	}
	return b.String()
}

// writeNumbers writes "7" or "[1-3,7]". A shorter number comes first: a range
// keeps the width of its lower end, so "08" and "8" never share one.
func writeNumbers(b *strings.Builder, numbers []string) {
	slices.SortFunc(numbers, func(x, y string) int {
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
	numbers = slices.Compact(numbers)
	var ranges []string
	for i := 0; i < len(numbers); {
		end := i
		for n, _ := strconv.Atoi(numbers[i]); end+1 < len(numbers) && numbers[end+1] == padded(n+1, len(numbers[end])); n++ {
			end++
		}
		r := numbers[i]
		if end > i {
			r += "-" + numbers[end]
		}
		ranges = append(ranges, r)
		i = end + 1
	}
	if len(numbers) == 1 {
		b.WriteString(numbers[0])
		return
	}
	b.WriteByte('[')
	b.WriteString(strings.Join(ranges, ","))
	b.WriteByte(']')
}

// splitHost cuts a host name at its last number, which is short enough for a
// range; "" when it has none.
func splitHost(host string) (prefix, number, suffix string) {
	end := len(host)
	for end > 0 && !isDigit(host[end-1]) {
		end--
	}
	start := end
	for start > 0 && isDigit(host[start-1]) {
		start--
	}
	if end-start > 9 {
		start = end - 9
	}
	return host[:start], host[start:end], host[end:]
}
