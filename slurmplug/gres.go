package slurmplug

// Gres is one generic resource of a node or a request: "gpu:a100:4".
type Gres struct {
	Name  string // "gpu"
	Type  string // "a100", "" when untyped
	Count int64
	Index string // devices in use, "0,4-5", when Slurm tells them; else ""
}
