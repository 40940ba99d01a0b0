// Package retry says why jobs failed, and runs again what may succeed then: the failures
// of Jeon et al. (USENIX ATC 2019), on Slurm.
//
// Each run that failed gets the class of the first rule that matches it: by Slurm's state and reason, exit status, signal, memory,
// and the end of its output where that may be read. The class says what is to be done; only a job whose user agreed to it
// (--prio-retry) is touched. A failure is a row, saved before a command is sent:
//
//	recorded -> requeued -> noted      a job that goes back into the queue
//	delayed  -> recorded               as soon as the caps of the hour allow it
//	noted                              all others
//
// After a crash a row that was recorded is compared with what Slurm shows: the command
// is sent again only while Slurm shows the very run that failed, ended.
//
// Files:
//   - rules.go: failures.toml, its bounds, and its examples
//   - classify.go: a run's end, its class and its signature
//   - decide.go: what happens then, and why; advice in words
//   - memory.go: rows, past failures of a job, suspect nodes
//   - feature.go: how this takes part in a cycle
package retry
