package sbatch

import (
	"bytes"
	"fmt"
	"strings"
)

// Word is one word of a directive.
type Word struct {
	Text string
	Line int // in the script, from 1
}

// ScriptError is a directive that sbatch would refuse.
type ScriptError struct {
	Line   int
	Reason string
}

func (e *ScriptError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Directives returns the words of a script's #SBATCH lines, for each het
// component ("#SBATCH hetjob" begins the next one). The words of all lines of a
// component form one command line. Scanning stops at the first line that is
// neither blank nor a comment. An error is a *ScriptError, or ErrInstalled for
// a line that releases read differently when r is 0.
func Directives(script []byte, r Release) ([][]Word, error) {
	return Scan(script, r, func(line string) (string, bool) {
		if tail, ok := strings.CutPrefix(line, "#SBATCH"); ok {
			return tail, true
		}
		return strings.CutPrefix(line, "#SLURM")
	})
}

// Scan does what Directives does for the lines that match; match returns what
// follows the magic word.
func Scan(script []byte, r Release, match func(line string) (tail string, ok bool)) ([][]Word, error) {
	components := make([][]Word, 1)
	for number := 1; len(script) > 0; number++ {
		var text []byte
		text, script, _ = bytes.Cut(script, []byte("\n"))
		if nul := bytes.IndexByte(text, 0); nul >= 0 {
			text = text[:nul]
		}
		first := bytes.TrimLeft(text, blanks)
		if len(first) > 0 && first[0] != '#' {
			break
		}
		// Only a line that begins with "#" can match: spare the others a string.
		if len(text) == 0 || text[0] != '#' {
			continue
		}
		tail, ok := match(string(text))
		if !ok {
			continue
		}
		if separator(strings.TrimLeft(tail, blanks)) {
			components = append(components, nil)
		}
		last := len(components) - 1
		words, err := splitWords(components[last], tail, number, r)
		if err != nil {
			return components, err
		}
		components[last] = words
	}
	return components, nil
}

// blanks are what isspace knows in the C locale.
const blanks = " \t\n\v\f\r"

func isBlank(c byte) bool { return strings.IndexByte(blanks, c) >= 0 }

// separator reports whether the words of a line begin with "hetjob".
func separator(tail string) bool {
	for _, word := range []string{"hetjob", "packjob"} {
		if len(tail) >= len(word) && strings.EqualFold(tail[:len(word)], word) && (len(tail) == len(word) || isBlank(tail[len(word)])) {
			return true
		}
	}
	return false
}

// splitWords appends the words of one directive (get_argument in
// src/sbatch/opt.c): quotes of both kinds group, a backslash takes the next
// character as it is inside quotes too, "#" begins a comment even inside a
// word. An empty word ("") or a separator ends the line.
func splitWords(words []Word, line string, number int, r Release) ([]Word, error) {
	for {
		line = strings.TrimLeft(line, blanks)
		if line == "" || separator(line) {
			return words, nil
		}
		if line[0] == ':' {
			return words, &ScriptError{number, "\":\" begins a word"}
		}
		var word []byte
		var quote byte
		escaped := false
		i := 0
		for ; i < len(line) && (quote != 0 || !isBlank(line[i])); i++ {
			c := line[i]
			switch {
			case escaped:
				escaped = false
			case c == '\\':
				// From 24.05 on "\ " is a blank in a word; before, it ends the
				// word, unless it is quoted.
				blank := i+1 < len(line) && line[i+1] == ' '
				if blank && r == 0 && quote == 0 {
					return words, fmt.Errorf("line %d: %q: %w", number, `\ `, ErrInstalled)
				}
				if blank && r >= 2405 {
					i++
					c = ' '
					break
				}
				escaped = true
				continue
			case quote != 0 && c == quote:
				quote = 0
				continue
			case quote != 0:
			case c == '"' || c == '\'':
				quote = c
				continue
			case c == '#':
				if len(word) > 0 {
					words = append(words, Word{string(word), number})
				}
				return words, nil
			}
			word = append(word, c)
		}
		if quote != 0 {
			return words, &ScriptError{number, "the quote " + string(quote) + " is not closed"}
		}
		if len(word) == 0 {
			return words, nil
		}
		words = append(words, Word{string(word), number})
		line = line[i:]
	}
}
