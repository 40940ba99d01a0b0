package steer

import (
	"fmt"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// vocabulary is the features that Slurm knows: it refuses every constraint that
// names another one, also one that a job has held from before.
type vocabulary map[string]bool

func newVocabulary(nodes []cluster.Node) vocabulary {
	v := vocabulary{}
	for i := range nodes {
		for _, f := range nodes[i].Features {
			v[f] = true
		}
		for _, f := range nodes[i].Spare {
			v[f] = true
		}
	}
	return v
}

// take is what Slurm takes of a user's own constraint now: all of it, or what the
// alternatives that no node has leave, which means the same. lost are those; "" with
// some lost cannot be written at all.
func (v vocabulary) take(own string) (text string, lost []string) {
	c, err := slurmplug.ParseConstraint(own)
	if err != nil {
		return own, nil // priod writes into no such job
	}
	known, lost, ok := c.Among(func(f string) bool { return v[f] })
	switch {
	case len(lost) == 0:
		return own, nil
	case !ok:
		return "", lost
	}
	return known.String(), lost
}

// with is a user's own constraint and one more feature, as Slurm takes it now.
func (v vocabulary) with(own, feature string) (string, error) {
	text, lost := v.take(own)
	if text == "" && len(lost) > 0 {
		text = own // Slurm says why it is refused
	}
	c, err := slurmplug.ParseConstraint(text)
	if err != nil {
		return "", err
	}
	return c.With(feature)
}

// NoFeature says why a user's own constraint cannot be put back.
func NoFeature(lost []string) string {
	return fmt.Sprintf("its user's own constraint cannot be put back: no node has the feature %.80s any more", strings.Join(lost, ", "))
}

// PutBack is what can be written of a constraint that its user wrote: all of it, or
// without the alternatives that no node has any more. lost are those; with "" left,
// Slurm takes nothing of it.
func PutBack(own string, nodes []cluster.Node) (text string, lost []string) {
	return newVocabulary(nodes).take(own)
}
