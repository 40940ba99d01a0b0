package cluster

import (
	"time"

	"slurmprio/slurmplug/jobtag"
)

// Stay is a job on GPUs of one type, without interruption, from when to when; of a TE job also one without GPUs.
type Stay struct {
	Job      JobID     `json:"-"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"` // last time it was seen running; final once Closed
	Closed   bool      `json:"closed"`
	GPUType  string    `json:"gpu_type,omitempty"` // "" when the type is not known
	GPUs     int       `json:"gpus"`
	Charge   float64   `json:"charged_gpus"` // with the GPUs that its CPUs and memory strand, as when it started; see Charges
	User     string    `json:"-"`
	Account  string    `json:"-"`
	Class    Class     `json:"class"` // as it counted when it started
	Restarts int       `json:"restarts"`
}

// Run is the run that the stay is of.
func (i *Stay) Run() Run { return RunOf(i.Job, i.Start) }

// Length is how long the stay lasted up to its End.
func (i *Stay) Length() time.Duration { return i.End.Sub(i.Start) }

// Charged is what the stay counts as in use, GPUs.
func (i *Stay) Charged() float64 { return max(i.Charge, float64(i.GPUs)) }

// GPUSeconds is what the stay received up to its End.
func (i *Stay) GPUSeconds() float64 { return float64(i.GPUs) * i.Length().Seconds() }

// PastStay is a stay as accounting tells it; its Class is its reader's to set.
type PastStay struct {
	Stay
	RawID    uint32
	Name     string // the job's
	QOS      string
	NodeList string // compact host list
	State    string // Slurm's, in which it ended: "COMPLETED"
	Submit   time.Time
	Eligible time.Time // from when on it could have started
	Tag      jobtag.Text
	Limit    time.Duration // of the job; 0: none, or the partition's
	Steps    float64       // that the command line says, where the tag does not; 0: none, or not read
}
