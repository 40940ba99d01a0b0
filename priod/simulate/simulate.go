// Package simulate runs traces through policies in virtual time. Its parts:
// virtual is a Slurm behind plan.Slurm, metrics measures what came out, sweep
// runs many, and ideal is what only the papers assume: rounds where every job
// may be moved, their solvers and bounds, pairs of jobs on the same GPUs.
package simulate
