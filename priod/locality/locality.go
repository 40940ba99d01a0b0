// Package locality has jobs of several nodes wait for few leaf switches, as long as that
// pays, and lets them have more step by step (Jeon et al., ATC 2019, section 5: trade
// queueing delay for locality on long jobs, and relax with time).
//
// A job on more switches than it needs takes longer. It waits for few no longer than more
// of them would cost it: having waited w, it accepts every number of switches on which it
// would run at most w longer. So it loses at most twice what knowing the future would
// (the rule of who rents skis until that has cost as much as to buy them), and whoever
// runs briefly does not wait. Only such time counts as waiting in which it could start on
// more switches: for GPUs, or for others, it would wait anyway.
//
// What is written is the job's Switches=COUNT@MINUTES, whose MINUTES are what it waits at
// most: where priod is gone, Slurm itself lets it start anywhere then. A job that asks for
// switches itself, or whose tag is missing or not valid, is left alone.
//
// # Files
//
//	rule.go      the rule: pure
//	feature.go   how locality takes part in a cycle
//	gangs.go     which jobs wait for switches, and what the rule is told of them
//	memory.go    what is remembered of each job between cycles
//	settings.go  the settings
package locality
