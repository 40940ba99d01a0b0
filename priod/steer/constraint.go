package steer

import (
	"fmt"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// vocabulary is the features that Slurm knows. It refuses every constraint that names
// another one, also a constraint that the job has had before.
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

// accepted is what Slurm accepts now of a constraint that a user wrote: all of it, or the rest without the alternatives that no node has,
// which means the same. lost are the features of those alternatives; when text is "" and some are lost, nothing is left that can be
// written.
func (v vocabulary) accepted(own string) (text string, lost []string) {
	c, err := slurmplug.ParseConstraint(own)
	if err != nil {
		return own, nil // such a job is excluded
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

// with is a user's own constraint and one more feature, as Slurm accepts it now.
func (v vocabulary) with(own, feature string) (string, error) {
	text, lost := v.accepted(own)
	if text == "" && len(lost) > 0 {
		text = own // Slurm will refuse it and say why
	}
	c, err := slurmplug.ParseConstraint(text)
	if err != nil {
		return "", err
	}
	return c.With(feature)
}

// NoFeature says why a user's own constraint cannot be put back.
func NoFeature(lost []string) string {
	return fmt.Sprintf("its user's own constraint cannot be restored: no node has the feature %.80s any more", strings.Join(lost, ", "))
}

// PutBack is what can be written back of a constraint that a user wrote, as accepted says; all of it where the nodes are not known.
func PutBack(own string, nodes []cluster.Node) (text string, lost []string) {
	if len(nodes) == 0 {
		return own, nil
	}
	return newVocabulary(nodes).accepted(own)
}
