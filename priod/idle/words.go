package idle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
)

// kindWords say what a job does.
var kindWords = map[Kind]string{Idle: "idle", Hung: "hung: it worked before", NeverUsed: "has never used its GPUs"}

// String is the kind in words.
func (k Kind) String() string { return kindWords[k] }

// Shows says what its source shows.
func (s *Spell) Shows() string {
	switch s.Source {
	case cluster.FromPrometheus, cluster.FromTrace:
		return fmt.Sprintf("its GPUs are at %.0f %%", s.Value)
	case cluster.FromLoad:
		return fmt.Sprintf("its nodes have a load of %.2f", s.Value)
	case cluster.FromSstat:
		return fmt.Sprintf("it uses %.2f CPUs", s.Value)
	case cluster.FromOutput:
		return fmt.Sprintf("it has written nothing for %s", span(time.Duration(s.Value*float64(time.Second))))
	case cluster.FromSteps:
		return "none of its steps runs"
	}
	return ""
}

// Words tell of a spell, in one line.
func (s *Spell) Words(at time.Time) string {
	words := fmt.Sprintf("%s, without work for %s (%s: %s)", s.Kind, span(s.Lasted(at)), s.Source, s.Shows())
	switch {
	case s.How == Worked:
		words += "; it works again: a false alarm"
	case s.How != "":
		words += "; " + string(s.How)
	}
	if s.Message != "" {
		words += "; Slurm: " + s.Message
	}
	return words
}

// Line is what its user is told.
func (s *Spell) Line(set *Settings, at time.Time) string {
	words := fmt.Sprintf("priod: job %s holds %d GPUs and has shown no work for %s (%s).", s.Job, s.GPUs, span(s.Lasted(at)), s.Shows())
	end := s.Since.Add(time.Duration(set.Acts * float64(s.After))).Local().Format("15:04")
	switch {
	case !s.Sure:
	case slices.Contains(set.Do, Cancel):
		words += fmt.Sprintf(" Without work until %s it is cancelled, or requeued if it was submitted with --prio-retry always.", end)
	case slices.Contains(set.Do, Requeue):
		words += fmt.Sprintf(" Without work until %s it is requeued if it was submitted with --prio-retry always.", end)
	case slices.Contains(set.Do, Victim):
		words += " It is the first to leave for others, if it agrees to leave."
	}
	return words
}

func span(d time.Duration) string {
	if d < 10*time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
