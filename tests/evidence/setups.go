package main

// setup is one way to run the jobs.
type setup struct {
	name   string   // of its files
	text   string   // in tables
	config string   // priod.toml; "": without priod
	flags  []string // beside those of the study
}

// gavel is GPU types by measured speed alone: Gavel's part.
const gavel = "[ranking]\norder = \"owed\"\n[allocation]\npolicy = \"max-min\"\n[steering]\nenabled = true\n"

const balanced = "profile = \"balanced\"\n"

// The setups that README and pages name.
var (
	shipped = setup{"slurm", "Slurm as it ships: multifactor, EASY backfill", "", []string{"--order", "multifactor"}}
	expert  = setup{"expert", "an expert's Slurm: preemption by QOS, youngest first, requeued", "", []string{"--order", "multifactor", "--preemption", "slurm-qos"}}
	profile = setup{"balanced", "**priod, `profile = \"balanced\"`**", balanced, nil}
)

// alone is each paper alone.
var alone = []setup{
	{"fitgpp", "FitGpp alone", "", []string{"--order", "multifactor", "--preemption", "fitgpp"}},
	{"gavel", "Gavel alone: allocation, steering, order `owed`", gavel, nil},
	{"synergy", "Synergy alone: sizing", "[sizing]\nenabled = true\n", nil},
	{"philly", "Philly's locality alone", "[locality]\nenabled = true\n", nil},
}

// noHeadroom keeps no nodes for TE jobs: each needs free GPUs or evictions.
var noHeadroom = setup{"no-headroom", "profile without nodes kept for TE jobs", balanced + "[preemption]\nheadroom = false\n", nil}

// without leaves one part of the profile out.
var without = []setup{
	{"no-steering", "profile without steering", balanced + "[steering]\nenabled = false\n", nil},
	{"no-eviction", "profile without preemption", balanced + "[preemption]\nenabled = false\n", nil},
	noHeadroom,
	{"no-sizing", "profile without sizing", balanced + "[sizing]\nenabled = false\n", nil},
	{"no-locality", "profile without locality", balanced + "[locality]\nenabled = false\n", nil},
	{"no-owed", "profile without order `owed`", balanced + "[ranking]\norder = \"slurm\"\n", nil},
}

// all are the setups of the main tables.
func all() []setup {
	list := append([]setup{shipped, expert}, alone...)
	return append(append(list, profile), without...)
}

// costs are what moving a job costs, and how often nodes fail.
var (
	costs   = []string{"--backfill", "easy", "--prolog", "10s", "--restart-cost", "60s", "--spread-costs", "0.146,0.199,0.441"}
	calm    = []string{"--mtbf", "3000h", "--repair", "4h"}
	weather = []string{"--mtbf", "18h", "--repair", "10m"} // some node of the 18 fails each hour
)
