package slurmplug

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Constraint is what a job asks of its nodes' features, in the forms of which it
// is certain what Slurm makes: words joined by & (or commas), words joined by |,
// and one such group of alternatives in parentheses joined by & to others.
type Constraint struct {
	all    [][]string // of each group a node has one
	groups bool       // written with parentheses
}

// Why a constraint is not read.
var (
	ErrCounts  = errors.New("it holds counts or matching alternatives ([], *)")
	ErrMixed   = errors.New("it mixes & and | without parentheses")
	ErrGroups  = errors.New("it holds parentheses")
	ErrFeature = errors.New("it holds what is no name of a feature")
)

// ParseConstraint reads what sbatch -C and Slurm's Features say; "" asks for
// nothing.
func ParseConstraint(text string) (Constraint, error) {
	var c Constraint
	switch {
	case text == "":
		return c, nil
	case strings.ContainsAny(text, "[]*"):
		return c, ErrCounts
	}
	c.groups = strings.ContainsAny(text, "()")
	parts := strings.Split(strings.ReplaceAll(text, ",", "&"), "&")
	for _, part := range parts {
		inner, group := strings.CutPrefix(part, "(")
		if group {
			if inner, group = strings.CutSuffix(inner, ")"); !group {
				return c, ErrGroups
			}
		}
		words := strings.Split(inner, "|")
		switch {
		case slices.ContainsFunc(words, func(w string) bool { return strings.ContainsAny(w, "()") }):
			return c, ErrGroups
		case slices.ContainsFunc(words, func(w string) bool { return !ValidFeature(w) }):
			return c, ErrFeature
		case len(words) > 1 && !group && len(parts) > 1:
			return c, ErrMixed
		}
		c.all = append(c.all, words)
	}
	return c, nil
}

// FeaturesIn are the names in a constraint, also in one that ParseConstraint does not read.
func FeaturesIn(text string) iter.Seq[string] {
	return strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune("&|,()[]*!", c) })
}

// ValidFeature reports whether s can be written as the name of a node feature.
func ValidFeature(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune("&|()[]*!,\"'`\\", c) })
}

// Allows reports whether a node with these features will do.
func (c Constraint) Allows(features []string) bool {
	for _, words := range c.all {
		if !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(features, w) }) {
			return false
		}
	}
	return true
}

// Among is the constraint without the alternatives that have does not know: Slurm
// refuses each name of a feature that no node has. lost are those; with alternatives
// left of all that a node must have, ok.
func (c Constraint) Among(have func(feature string) bool) (known Constraint, lost []string, ok bool) {
	known, ok = Constraint{groups: c.groups}, true
	for _, words := range c.all {
		var kept []string
		for _, w := range words {
			if have(w) {
				kept = append(kept, w)
			} else {
				lost = append(lost, w)
			}
		}
		known.all, ok = append(known.all, kept), ok && len(kept) > 0
	}
	return known, lost, ok
}

// String writes the constraint anew.
func (c Constraint) String() string {
	groups := make([]string, len(c.all))
	for i, words := range c.all {
		if groups[i] = strings.Join(words, "|"); len(words) > 1 && len(c.all) > 1 {
			groups[i] = "(" + groups[i] + ")"
		}
	}
	return strings.Join(groups, "&")
}

// With writes the constraint with one more feature that a node must have. What
// has parentheses gets none: 22.05 refuses to nest them.
func (c Constraint) With(feature string) (string, error) {
	switch {
	case !ValidFeature(feature):
		return "", fmt.Errorf("feature %.80q: %w", feature, ErrFeature)
	case c.groups:
		return "", ErrGroups
	case len(c.all) == 0:
		return feature, nil
	case len(c.all) == 1 && len(c.all[0]) > 1:
		return "(" + strings.Join(c.all[0], "|") + ")&" + feature, nil
	}
	var words []string
	for _, w := range c.all {
		words = append(words, w[0])
	}
	return strings.Join(append(words, feature), "&"), nil
}
