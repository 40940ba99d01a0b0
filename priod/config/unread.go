package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
	"github.com/xrash/smetrics"

	"slurmprio/etc"
)

// unread is an error of the TOML library in our words, with file, line and key.
func unread(path string, err error) error {
	var at toml.ParseError
	if errors.As(err, &at) {
		if at.LastKey != "" && !strings.Contains(at.Message, at.LastKey) {
			at.Message = at.LastKey + ": " + at.Message
		}
		return fmt.Errorf("%s:%d: %s", path, at.Position.Line, at.Message)
	}
	if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s:%s: %s: want %s, not %s", path, m[1], m[2], typeWords(m[4]), typeWords(m[3]))
	}
	return fmt.Errorf("%s: %w", path, err)
}

// wrongType is how the TOML library refuses a value, in two ways: line, key, type, other type.
// It has no error of a type for that.
var wrongType = regexp.MustCompile(`^toml: line (\d+) \(last key "(.*)"\): (?:incompatible types: TOML value has type|type mismatch for .* expected table but found) ([^;]*)(?:; destination has type (.*))?$`)

func typeWords(name string) string {
	switch name {
	case "string", "primitive (string-like)":
		return "a text in quotes"
	case "integer", "int64":
		return "a whole number"
	case "float":
		return "a number"
	case "float64":
		return "a fraction"
	case "boolean", "bool":
		return "true or false"
	case "slice", "[]any", "[]map[string]any":
		return "a list in brackets"
	case "", "map", "map[string]any":
		return "a table"
	}
	return name
}

// suggest names the known key that is nearest to an unknown one.
func suggest(key string) string {
	most := max(3, len(key)/3)
	best, distance := "", len(key)
	for _, k := range knownKeys() {
		if len(k) > len(key)+most || len(key) > len(k)+most { // at least that far
			continue
		}
		if d := smetrics.WagnerFischer(key, k, 1, 1, 1); d < distance {
			best, distance = k, d
		}
	}
	if best == "" || distance > most {
		return "; etc/priod.toml lists all keys"
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

var knownKeys = sync.OnceValue(func() []string {
	meta, err := toml.Decode(etc.Priod, &Config{})
	if err != nil {
		return nil
	}
	var keys []string
	for _, k := range meta.Keys() {
		keys = append(keys, k.String())
	}
	return keys
})
