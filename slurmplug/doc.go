// Package slurmplug is the shared plug into Slurm: its small languages (TRES,
// GRES, host lists, array ids, times) and its commands, reading and writing.
// Records come out typed, updates go in typed. It holds no policy and no SQL,
// and builds without cgo.
//
// A read that cannot be trusted is an error, never a short answer: a caller
// that gets a slice back has all of it.
package slurmplug
