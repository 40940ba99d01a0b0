package slurmplug

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The composed forms are those that a real Slurm took (tests, TestSteering...).
func TestConstraintWith(t *testing.T) {
	for text, want := range map[string]string{
		"":            "v100",
		"ssd":         "ssd&v100",
		"ssd&ib":      "ssd&ib&v100",
		"ssd,ib":      "ssd&ib&v100",
		"a100|v100":   "(a100|v100)&v100",
		"a|b|c":       "(a|b|c)&v100",
		"rack.1:left": "rack.1:left&v100",
	} {
		c, err := ParseConstraint(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := c.With("v100"); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"[a100|v100]": ErrCounts, "[a*1&b*2]": ErrCounts, "a*2": ErrCounts, "(a&b)|c": ErrGroups, "((a|b))&c": ErrGroups,
		"(a|b": ErrGroups, "a|b)": ErrGroups, "a&b|c": ErrMixed, "a|b&c": ErrMixed, "!a": ErrFeature, "a&": ErrFeature, "|": ErrFeature,
		"a b": ErrFeature, "a\n": ErrFeature, "\u00e4": ErrFeature, "()": ErrFeature, "a&&b": ErrFeature, ",": ErrFeature,
	} {
		if _, err := ParseConstraint(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	c, err := ParseConstraint("(a|b)&c")
	if err != nil || !c.Allows([]string{"b", "c"}) || c.Allows([]string{"a", "b"}) || c.Allows([]string{"c"}) {
		t.Errorf("(a|b)&c: %+v, %v", c, err)
	}
	if _, err := c.With("v100"); !errors.Is(err, ErrGroups) {
		t.Errorf("nested: %v", err)
	}
	if _, err := (Constraint{}).With("a|b"); err == nil {
		t.Error("a|b is no feature")
	}
}

// Slurm refuses names of features that no node has.
func TestConstraintAmong(t *testing.T) {
	for text, want := range map[string]struct {
		known, lost string
		ok          bool
	}{
		"":            {"", "", true},
		"a":           {"a", "", true},
		"a|gone|b":    {"a|b", "gone", true},
		"gone|b":      {"b", "gone", true},
		"(a|gone)&b":  {"a&b", "gone", true},
		"(a|b|x)&b&y": {"(a|b)&", "x y", false},
		"a&gone":      {"a&", "gone", false},
	} {
		c, err := ParseConstraint(text)
		if err != nil {
			t.Fatal(err)
		}
		known, lost, ok := c.Among(func(f string) bool { return f == "a" || f == "b" })
		if ok != want.ok || strings.Join(lost, " ") != want.lost || ok && known.String() != want.known {
			t.Errorf("%q: %q, %q, %v", text, known, lost, ok)
		}
	}
}

// What is composed asks for what the user asked for and the feature, reads back,
// and can be written.
func TestConstraintComposes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		text := strings.Join(rapid.SliceOfN(word, 0, 3).Draw(t, "words"), rapid.SampledFrom([]string{"&", "|", ",", "&(", "|["}).Draw(t, "joint"))
		own, err := ParseConstraint(text)
		if err != nil {
			return
		}
		both, err := own.With("t")
		if err != nil {
			t.Fatal(err)
		}
		c, err := ParseConstraint(both)
		if err != nil {
			t.Fatalf("%q: %v", both, err)
		}
		if err := (Update{Job: Plain(1), Lever: Features, Value: Text(both)}).Validate(); err != nil {
			t.Fatal(err)
		}
		node := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "t"}), 0, 4).Draw(t, "node")
		if got := c.Allows(node); got != (own.Allows(node) && slices.Contains(node, "t")) {
			t.Fatalf("%q, then %q on %v: %v", text, both, node, got)
		}
	})
}
