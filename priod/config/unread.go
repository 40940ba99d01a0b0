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

// renamed are keys of earlier versions with the names that they have now, as CHANGELOG lists them.
var renamed = map[string]string{
	"locality.max_wait":     "locality.max_wait",
	"locality.wait_weight":        "locality.wait_weight",
	"locality.queue_weight":      "locality.queue_weight",
	"locality.limit_share":    "locality.limit_share",
	"steering.min_share":       "steering.min_share",
	"steering.switch_threshold":      "steering.switch_threshold",
	"steering.wait_weight":        "steering.wait_weight",
	"steering.max_passed_cycles":      "steering.max_passed_cycles",
	"rounds.min_gain_ratio":           "rounds.min_gain_ratio",
	"rounds.finish_bonus":          "rounds.finish_bonus",
	"rounds.finish_bonus_half_life":          "rounds.finish_bonus_half_life",
	"rounds.max_yields":       "rounds.max_yields",
	"sizing.start_timeout":        "sizing.start_timeout",
	"sizing.depth":          "sizing.depth",
	"speeds.max_error_factor":        "speeds.max_error_factor",
	"speeds.min_run":      "speeds.min_run",
	"speeds.renamed":      "speeds.renamed",
	"speeds.interval":         "speeds.interval",
	"allocation.interval":     "allocation.interval",
	"preemption.repeat_penalty":      "preemption.repeat_penalty",
	"preemption.reserve_for":      "preemption.reserve_for",
	"preemption.retry_after":     "preemption.retry_after",
	"preemption.poll_interval":     "preemption.poll_interval",
	"retry.min_run":          "retry.min_run",
	"retry.max_excluded_nodes":        "retry.max_excluded_nodes",
	"retry.suspect_window": "retry.suspect_window",
	"retry.max_drained":     "retry.max_drained",
}

// suggest names the known key that an unknown one became, or that is nearest to it.
func suggest(key string) string {
	table, rest, _ := strings.Cut(key, ".")
	name, _, _ := strings.Cut(rest, ".")
	if now := renamed[table+"."+name]; now != "" {
		return fmt.Sprintf("; it is %s now", now)
	}
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
		return "; priod config show lists all keys"
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

var knownKeys = sync.OnceValue(func() []string {
	var keys []string
	for _, text := range []string{etc.Priod, etc.Constants} {
		meta, err := toml.Decode(text, &Config{})
		if err != nil {
			return nil
		}
		for _, k := range meta.Keys() {
			keys = append(keys, k.String())
		}
	}
	return keys
})
