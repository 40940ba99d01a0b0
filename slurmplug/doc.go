// Package slurmplug is the shared plug into Slurm: its small languages (TRES,
// GRES, host lists, array ids, times) and its commands, reading and writing.
// Records come out typed, updates go in typed. It holds no policy and no SQL,
// and builds without cgo.
//
// A Client reads and writes one cluster through a Runner. A read that cannot be
// trusted is an error, never a short answer: a caller that gets a slice back has
// all of it. A record with a field in an unknown form stands in it with Unread set.
// A write gets one Result for each Update, which tells a job that
// left meanwhile from a refusal, and both from not knowing.
//
// Users choose names, comments, accounts and GRES types freely, any bytes at
// all. What separates fields of a read is therefore random and used once. Who
// can list the processes of the host sees it while squeue runs; on a host where
// users log in, mount /proc with hidepid.
//
// testdata holds what a real Slurm said; testdata/record.sh records it anew.
package slurmplug
