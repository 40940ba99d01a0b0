// Package simulate runs traces through policies in virtual time. Its parts:
// virtual is a Slurm behind plan.Slurm, rounds is the papers' ideal where
// every job may be moved at each round, published is what Gavel's own code makes
// of its policies, metrics measures what came out, sweep runs many.
package simulate
