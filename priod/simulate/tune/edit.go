package tune

import (
	"fmt"
	"strings"
)

// Edit is one assignment in the text of a priod.toml: the lines as a diff has them.
type Edit struct {
	Key     string
	Section string // "": above all tables
	Old     string // the line that it takes the place of; "": there is none
	New     string
}

// Edits are what assignments KEY=VALUE change in the text of a priod.toml. Values are TOML, or words that get quotes.
func Edits(text string, set []string) []Edit {
	edits := make([]Edit, len(set))
	for i, s := range set {
		key, value, _ := strings.Cut(s, "=")
		e := Edit{Key: key}
		name := key
		if at := strings.LastIndex(key, "."); at >= 0 {
			e.Section, name = key[:at], key[at+1:]
		}
		e.New = name + " = " + literal(value)
		section := ""
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			switch trimmed := strings.TrimSpace(line); {
			case strings.HasPrefix(trimmed, "[") && !strings.HasPrefix(trimmed, "[["):
				section, _, _ = strings.Cut(strings.TrimPrefix(trimmed, "["), "]")
				section = strings.TrimSpace(section)
			case strings.HasPrefix(trimmed, "[["):
				section = trimmed
			default:
				if left, _, is := strings.Cut(trimmed, "="); is && section == e.Section && strings.TrimSpace(left) == name {
					e.Old = line
				}
			}
		}
		edits[i] = e
	}
	return edits
}

// literal is a value as TOML has it.
func literal(value string) string {
	if value == "true" || value == "false" || strings.Trim(value, "-+.0123456789eE_") == "" || strings.HasPrefix(value, "[") || strings.HasPrefix(value, `"`) {
		return value
	}
	return fmt.Sprintf("%q", value)
}
