// Package chaos is what a run of everything at once is made of, as data and pure
// functions: jobs (workload.go), what their users do to them meanwhile (users.go),
// faults (faults.go), what is seen from outside (watch.go), and one function for
// each rule that has to hold over all that was seen (rules.go).
//
// A run takes a seed, and its length: Workload, Turns and Faults give all that will
// happen and when. TestChaos of package tests plays that on a real Slurm with priod
// and everything on, and the jobs and turns without the faults on one without priod,
// looks at both once a second, and hands the two Runs to Breaches.
package chaos
