package config

import (
	"errors"
	"fmt"
	"reflect"
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

// renamed are keys of versions before 1.0.0 with the names that they have now.
var renamed = map[string]string{
	"locality.longest":     "locality.max_wait",
	"locality.wait":        "locality.wait_weight",
	"locality.others":      "locality.queue_weight",
	"locality.of_limit":    "locality.limit_share",
	"steering.least":       "steering.min_share",
	"steering.change":      "steering.switch_threshold",
	"steering.wait":        "steering.wait_weight",
	"steering.cycles":      "steering.max_passed_cycles",
	"rounds.pay":           "rounds.min_gain_ratio",
	"rounds.lead":          "rounds.finish_bonus",
	"rounds.half":          "rounds.finish_bonus_half_life",
	"rounds.at_once":       "rounds.max_yields",
	"sizing.within":        "sizing.start_timeout",
	"sizing.jobs":          "sizing.depth",
	"speeds.shortest":      "speeds.min_run",
	"speeds.formerly":      "speeds.renamed",
	"speeds.every":         "speeds.interval",
	"allocation.every":     "allocation.interval",
	"preemption.rise":      "preemption.repeat_penalty",
	"preemption.hold":      "preemption.reserve_for",
	"preemption.retry":     "preemption.retry_after",
	"preemption.watch":     "preemption.poll_interval",
	"retry.quick":          "retry.min_run",
	"retry.exclude":        "retry.max_excluded_nodes",
	"retry.suspect_within": "retry.suspect_window",
	"retry.drain_most":     "retry.max_drained",
}

// removed are keys of earlier versions that nothing took the place of, and why.
var removed = map[string]string{
	"ranking.lever":           "SiteFactor carries the order on each version of Slurm; what nice or priority wrote is given back at the first cycle",
	"steering.busy":           "it changed nothing (docs/evidence/steering.md)",
	"locality.few_nodes":      "jobs wait for few switches alone",
	"locality.node_costs":     "jobs wait for few switches alone",
	"sizing.give_back":        "it had no measured gain",
	"sizing.give_back_after":  "it had no measured gain",
	"sizing.mechanism":        "sizes are those of waterfill; tests/papers has Synergy's others",
	"speeds.within":           "history is used where it is surer than speeds.types, or than all types being equal",
	"speeds.max_error_factor": "history is used where it is surer than speeds.types, or than all types being equal",
}

// suggest names the known key that an unknown one became, or that is nearest to it.
func suggest(key string) string {
	table, rest, _ := strings.Cut(key, ".")
	name, _, _ := strings.Cut(rest, ".")
	if now := renamed[table+"."+name]; constantOf(now) != nil {
		return fmt.Sprintf("; it was %s, a constant now (%s): remove it", now, constantOf(now).words())
	} else if now != "" {
		return fmt.Sprintf("; it is %s now", now)
	}
	if why := removed[table+"."+name]; why != "" {
		return "; it was removed: " + why
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
	if names := keysOf(table); names != "" {
		return fmt.Sprintf("; [[%s]] has %s", table, names)
	}
	if best == "" || distance > most {
		return "; priod config show lists all keys"
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// lineOf is where a key stands, ":12"; "": it is written in another way than one a line.
func lineOf(text string, key toml.Key) string {
	table, name := strings.Join(key[:len(key)-1], "."), key[len(key)-1]
	at := ""
	for n, line := range strings.Split(text, "\n") {
		word := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(word, "["):
			at, _, _ = strings.Cut(strings.TrimLeft(word, "[ "), "]")
			at = strings.TrimSpace(at)
			if at == key.String() {
				return fmt.Sprintf(":%d", n+1)
			}
		case at == table:
			if left, _, set := strings.Cut(word, "="); set && strings.Trim(left, " \t\"'") == name {
				return fmt.Sprintf(":%d", n+1)
			}
		}
	}
	return ""
}

// keysOf are the keys of a list of tables, such as [[class]], of which priod.toml shows none; "": it is none.
func keysOf(table string) string {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if f.Tag.Get("toml") != table || f.Type.Kind() != reflect.Slice || f.Type.Elem().Kind() != reflect.Struct {
			continue
		}
		var names []string
		for _, k := range reflect.VisibleFields(f.Type.Elem()) {
			if name := k.Tag.Get("toml"); name != "" && name != "-" {
				names = append(names, name)
			}
		}
		return strings.Join(names, ", ")
	}
	return ""
}

var knownKeys = sync.OnceValue(func() []string {
	var keys []string
	meta, err := toml.Decode(etc.Priod, &Config{})
	if err != nil {
		return nil
	}
	for _, k := range meta.Keys() {
		keys = append(keys, k.String())
	}
	return keys
})
