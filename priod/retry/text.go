package retry

import (
	"bytes"
	"regexp/syntax"
	"strings"
)

// Bounds of what one rule reads of an output: most lines have nothing to do with most
// rules, and the rest is bounded, so that a job's output cannot keep priod busy.
const (
	maxLineBytes = 2000
	maxRuleBytes = 16 << 10
)

// text is the end of an output, line by line.
type text struct {
	lines, lower [][]byte
}

// linesOf splits an output into lines. Progress bars end theirs with a carriage return; what colours a terminal is left out.
func linesOf(output []byte) text {
	var t text
	plain := uncoloured(output)
	for line := range bytes.FieldsFuncSeq(plain, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = line[:min(len(line), maxLineBytes)]
		t.lines, t.lower = append(t.lines, line), append(t.lower, bytes.ToLower(line))
	}
	return t
}

// uncoloured is a text without the sequences that set colours: ESC [ numbers letter.
func uncoloured(b []byte) []byte {
	if bytes.IndexByte(b, 0x1b) < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != 0x1b {
			out = append(out, b[i])
			continue
		}
		end := i + 1
		if end < len(b) && b[end] == '[' {
			for end++; end < len(b) && strings.IndexByte("0123456789;", b[end]) >= 0; end++ {
			}
			i = min(end, len(b)-1)
		}
	}
	return out
}

// find is the first line that matches a rule's pattern, of the last ones that can.
func (r *rule) find(t *text) (line []byte, at int) {
	first, left := len(t.lines), maxRuleBytes
	var able []int
	for first--; first >= 0 && left > 0; first-- {
		if r.mayMatch(t.lower[first]) {
			able, left = append(able, first), left-len(t.lines[first])
		}
	}
	for i := len(able) - 1; i >= 0; i-- {
		if m := r.output.FindIndex(t.lines[able[i]]); m != nil {
			return t.lines[able[i]], m[0]
		}
	}
	return nil, -1
}

// mayMatch reports whether a line, in small letters, has one of the words without which the pattern matches nothing.
func (r *rule) mayMatch(lower []byte) bool {
	for _, w := range r.words {
		if bytes.Contains(lower, w) {
			return true
		}
	}
	return r.words == nil
}

// wordsOf are texts in small letters, one of which stands in all that a pattern matches; nil when there are none to be named.
func wordsOf(pattern string) (words [][]byte) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	for w := range needed(re.Simplify()) {
		words = append(words, []byte(w))
	}
	return words
}

// needed is a set of texts, one of which stands in all that an expression matches; nil when there is none.
func needed(re *syntax.Regexp) map[string]bool {
	switch re.Op {
	case syntax.OpLiteral:
		lower := strings.ToLower(string(re.Rune))
		if len(lower) < 3 || strings.ContainsFunc(lower, func(r rune) bool { return r > 0x7e }) {
			return nil
		}
		return map[string]bool{lower: true}
	case syntax.OpCapture, syntax.OpPlus:
		return needed(re.Sub[0])
	case syntax.OpConcat:
		var best map[string]bool
		for _, sub := range re.Sub {
			if n := needed(sub); n != nil && (best == nil || shortest(n) > shortest(best)) {
				best = n
			}
		}
		return best
	case syntax.OpAlternate:
		all := map[string]bool{}
		for _, sub := range re.Sub {
			n := needed(sub)
			if n == nil {
				return nil
			}
			for w := range n {
				all[w] = true
			}
		}
		return all
	}
	return nil
}

func shortest(words map[string]bool) int {
	least := maxPattern
	for w := range words {
		least = min(least, len(w))
	}
	return least
}
