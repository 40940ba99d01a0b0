package chaos

import (
	"math/rand/v2"
	"time"

	"slurmprio/tests/shim"
)

// Fault is something that goes wrong.
type Fault struct {
	At      time.Duration
	What    string      // command, or one of harms
	Command *shim.Fault // at the next such command that priod runs
	Lasts   time.Duration
	Node    int // its number, counted round
}

func (f Fault) String() string {
	if f.Command != nil {
		return f.Command.String()
	}
	return f.What
}

// harms are the faults of whole processes and of files.
var harms = []string{"kill priod", "stop priod", "kill slurmctld", "stop slurmctld", "kill slurmd", "stop slurmdbd", "disk full", "lose database", "lose database while priod is down"}

// commands are those that the daemon runs, as package shim tells them apart. The
// ones that act come twice.
var commands = []string{
	"squeue", "sacct", "sacctmgr", "sdiag", "sprio", "sstat", "scancel", "scancel",
	"scontrol show node", "scontrol show job", "scontrol show config", "scontrol show partition", "scontrol ping",
	"scontrol update", "scontrol update", "scontrol requeue", "scontrol requeue", "scontrol create", "scontrol delete",
}

// ways in which a command can go wrong.
var ways = []shim.Fault{
	{When: "before", Do: shim.Fail},
	{When: "after", Do: shim.Fail},
	{When: "before", Do: shim.Hang},
	{When: "after", Do: shim.Hang}, // did its work, and priod cannot know
	{When: "after", Do: shim.Die},
	{When: "during", Do: shim.Die},
	{When: "after", Do: shim.Cut},
	{When: "after", Do: shim.Noise, Text: "slurm_load_jobs error: \x00\xff 17|PENDING\n"},
	{When: "before", Do: shim.Kill},
	{When: "after", Do: shim.Kill},
}

// Faults draws so many of each sort: the same for the same seed.
func Faults(seed uint64, size Size, atCommands, others int) (all []Fault) {
	r := rand.New(rand.NewPCG(seed, 17))
	begin, span := size.Length/10, size.Length
	for i := range atCommands + others {
		f := Fault{At: begin + span*time.Duration(i)/time.Duration(atCommands+others), What: "command", Node: r.IntN(16)}
		if i%max(1, (atCommands+others)/max(1, others)) == 0 && others > 0 {
			f.What, f.Lasts = one(r, harms...), time.Duration(3+r.IntN(5))*time.Second
		} else {
			c := one(r, ways...)
			c.Command, c.Call, c.Part = one(r, commands...), 1, r.Float64()
			f.Command = &c
		}
		all = append(all, f)
	}
	return all
}
