package speed_test

import (
	"fmt"

	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug/jobtag"
)

// History knows a program on two types by its own runs, and on a third by how other
// programs compare the types.
func ExampleSettings_For_history() {
	var history speed.History
	add := func(program speed.Program, gpuType string, minutes float64) {
		for range 5 {
			history.Add(speed.Run{Program: program, Seconds: map[string]float64{gpuType: 60 * minutes}})
		}
	}
	for _, name := range []string{"gan", "lm"} {
		program := speed.Program{User: "ann", Name: name, GPUs: 1}
		add(program, "a100", 10)
		add(program, "v100", 20)
		add(program, "t4", 40)
	}
	train := speed.Program{User: "bob", Name: "train", GPUs: 1}
	add(train, "a100", 90)
	add(train, "v100", 180)

	settings := speed.Settings{}
	job := &speed.Job{User: "bob", Name: "train", GPUs: 1}
	answers := settings.For(job, []string{"a100", "t4", "v100"}, nil, history.Learn())
	for _, a := range answers.Speeds {
		fmt.Printf("%s %.2f by %s, within a factor %.1f, from %d runs\n", a.GPUType, a.Speed, a.Source, a.Factor, a.Runs)
	}
	// Output:
	// a100 1.00 by history, within a factor 1.2, from 5 runs
	// t4 0.25 by history, within a factor 1.4, from 0 runs
	// v100 0.50 by history, within a factor 1.2, from 5 runs
}

// What the tag says is believed. priod.toml fills in the type that it leaves out, scaled
// to the tag's units by the type that both name.
func ExampleSettings_For_tag() {
	tag, err := jobtag.Parse("prio:speed=a100:30,v100:10&v=1")
	if err != nil {
		panic(err)
	}
	settings := speed.Settings{Types: map[string]float64{"t4": 1, "v100": 2}}
	answers := settings.For(&speed.Job{Tag: tag, User: "ann", Name: "train", GPUs: 1}, []string{"a100", "t4", "v100"}, nil, nil)
	for _, a := range answers.Speeds {
		fmt.Printf("%s %.2f: %s\n", a.GPUType, a.Speed, a.Source.Words())
	}
	// Output:
	// a100 1.00: the job's tag
	// t4 0.17: the type's speed in priod.toml
	// v100 0.33: the job's tag
}
