package steer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// Settings say whether pending jobs get a GPU type written into their constraint, and how.
type Settings struct {
	Enabled        bool
	Rule           Rule
	Features       map[string]string // by GPU type: the node feature, where it is not the type's name
	WritesPerCycle int               // in one cycle; 0: no limit
}

// Feature is the node feature that stands for a GPU type.
func (set *Settings) Feature(gpuType string) string {
	return cmp.Or(set.Features[gpuType], gpuType)
}

// Rule holds the parameters of Decide. Its times are in seconds.
type Rule struct {
	Depth int // jobs at the head of the queue that are steered; 0: all
	// Wait is the weight of a second of waiting against a second of running, when a job chooses among the types allocated to it. With 1 a job
	// takes the type on which it ends first. A waiting job also delays later ones, hence more.
	Wait float64
	// Least is the smallest fraction of a job's time on a type that counts as an allocation.
	Least float64
	// A job keeps a type for at least Keep after it was bound to it, and is not bound again to a type that it left less than Away ago. Both
	// count from snapshot to snapshot; writes follow theirs by some seconds on a busy Slurm.
	Keep, Away float64
	// Change is the hysteresis after Keep. The type is taken back only when the job's allocation there has fallen by more than this fraction
	// of its time since it was bound, or when the score of another type is better by this factor.
	Change float64
	Cycles int // a job that could start on its type and did not in so many cycles is opened
}

// Defaults are the parameters for a site that has measured nothing.
var Defaults = Rule{Depth: 500, Wait: 16, Least: 0.001, Keep: 65, Away: 65, Change: 0.2, Cycles: 20}

// Constants are the settings that no site changes.
var Constants = Settings{Rule: Defaults, WritesPerCycle: 100}

// Check refuses parameters that mean nothing.
func (rule *Rule) Check() error {
	number := func(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
	switch {
	case rule.Depth < 0 || rule.Cycles < 1:
		return fmt.Errorf("steering: depth %d and cycles %d: want a depth from 0 and at least one cycle", rule.Depth, rule.Cycles)
	case !number(rule.Wait) || !number(rule.Least) || !number(rule.Keep) || !number(rule.Away) || !number(rule.Change):
		return errors.New("steering: weights and thresholds are numbers from 0")
	}
	return nil
}
