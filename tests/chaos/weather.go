package chaos

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"slurmprio/slurmplug"
)

// Weather is a change of the cluster itself, by its operators or its hardware: the same in the
// lab with priod and in the lab without.
type Weather struct {
	At    time.Duration
	What  string // one of weathers
	Node  int    // its number, counted round
	Lasts time.Duration
}

const (
	Drain     = "drain"           // running jobs go on; then resumed
	Failure   = "node failure"    // the jobs on it die and are requeued; then resumed
	Reboot    = "reboot"          // drained, then down, then resumed
	Flap      = "flap"            // down and up again, each second
	Feature   = "feature"         // one more feature; then as before
	Partition = "partition nodes" // the partition interactive loses the node; then has it again
)

var weathers = []string{Drain, Failure, Reboot, Flap, Feature, Partition}

// Weathers draws n changes, at most one a kind before each kind has come: the same for the same seed.
func Weathers(seed uint64, size Size, n int) (all []Weather) {
	r := rand.New(rand.NewPCG(seed, 19))
	begin, span := size.Length/8, size.Length
	kinds := r.Perm(len(weathers))
	for i := range n {
		all = append(all, Weather{
			At:   begin + span*time.Duration(i)/time.Duration(n),
			What: weathers[kinds[i%len(kinds)]], Node: r.IntN(16), Lasts: time.Duration(3+r.IntN(5)) * time.Second,
		})
	}
	return all
}

// Change is one command of a change, and how long after its begin it comes.
type Change struct {
	After time.Duration
	Argv  []string
}

// Changes are the commands of the weather. nodes are all of the cluster's, each with the GPU type
// that its name begins with as its feature.
func (w Weather) Changes(nodes []string) (all []Change) {
	node := nodes[w.Node%len(nodes)]
	gpuType, _, _ := strings.Cut(node, "-")
	set := func(after time.Duration, argv ...string) {
		all = append(all, Change{after, append([]string{"scontrol", "update"}, argv...)})
	}
	state := func(after time.Duration, to string) {
		set(after, "NodeName="+node, "State="+to, "Reason=weather")
	}
	switch w.What {
	case Drain:
		state(0, "DRAIN")
		state(w.Lasts, "RESUME")
	case Failure:
		state(0, "DOWN")
		state(w.Lasts, "RESUME")
	case Reboot:
		state(0, "DRAIN")
		state(w.Lasts/2, "DOWN")
		state(w.Lasts, "RESUME")
	case Flap:
		for at := time.Duration(0); at < w.Lasts; at += 2 * time.Second {
			state(at, "DOWN")
			state(at+time.Second, "RESUME")
		}
	case Feature:
		more := gpuType + ",repaired"
		set(0, "NodeName="+node, "AvailableFeatures="+more, "ActiveFeatures="+more)
		set(w.Lasts, "NodeName="+node, "AvailableFeatures="+gpuType, "ActiveFeatures="+gpuType)
	case Partition:
		left := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == node })
		set(0, "PartitionName=interactive", "Nodes="+strings.Join(left, ","))
		set(w.Lasts, "PartitionName=interactive", "Nodes="+strings.Join(nodes, ","))
	}
	return all
}

// kills reports whether the weather ends the jobs on its node.
func (w Weather) kills() bool { return w.What == Failure || w.What == Reboot || w.What == Flap }

// struck reports whether weather ended the run of a part at a moment: a node of it went down. Its nodes
// stand in the job's own log.
func (r *Run) struck(p Part, at time.Time) bool {
	nodes := ""
	for _, e := range r.Logs[p.Name] {
		if e.What == "start" && !e.At.After(at) && len(e.More) == 3 {
			nodes = e.More[2]
		}
	}
	return slices.ContainsFunc(r.Weather, func(w Weathered) bool {
		return w.kills() && !at.Before(w.From.Add(-time.Second)) && !at.After(w.Until.Add(slack)) && ranOn(nodes, w.Name)
	})
}

func ranOn(list, node string) bool {
	names, err := slurmplug.ExpandHosts(list)
	return err == nil && slices.Contains(names, node)
}

// inWeather reports whether some weather lasted at a moment, or was just over.
func (r *Run) inWeather(at time.Time, what ...string) bool {
	return slices.ContainsFunc(r.Weather, func(w Weathered) bool {
		return slices.Contains(what, w.What) && !at.Before(w.From.Add(-slack)) && !at.After(w.Until.Add(slack))
	})
}

// Weathered is weather as it came.
type Weathered struct {
	Weather
	Name        string // of the node
	From, Until time.Time
}
