// Package locality has jobs of several nodes wait for few leaf switches, as long as that pays, and lets them have more step by step
// (Jeon et al., ATC 2019, section 5: trade queueing delay for locality on long jobs, and relax with time).
//
// A job on more switches than it needs takes longer, and GPUs longer from those that wait.
// It accepts a number of switches once it has waited as long as these would cost it; by its
// own time alone it so loses at most twice what knowing the future would (ski rental). Only such time counts as waiting in which it
// could start on more switches: for GPUs, or for others, it would wait anyway.
//
// What is written is the job's Switches=COUNT@MINUTES, whose MINUTES are the longest wait: where priod is gone, Slurm itself lets
// it start anywhere then. A job that asks for switches itself, or whose tag is missing or not valid, is left alone.
//
// A gang is also as slow as its slowest node. Refusals has it refuse nodes that are slow beyond doubt (nodespeed), by the same
// rule: as long as its longer run there would be, in such time as it could have started on them. That is the job's ExcNodeList,
// which retry writes, too: a job that failed refuses the nodes of its failure instead, and what retry or its user wrote is never
// written over here.
//
// # Files
//
//	rule.go      the rule: pure
//	feature.go   how locality takes part in a cycle
//	gangs.go     which jobs wait, and what the rule is told of them
//	switches.go  what jobs ask of switches, and what is known of these
//	refuse.go    which slow nodes jobs refuse
//	memory.go    what is remembered of each job between cycles
//	settings.go  the settings
package locality
