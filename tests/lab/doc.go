// Package lab runs a real Slurm cluster with fake GPUs on this machine, for
// tests and for people. munged, MariaDB, slurmdbd, slurmctld and one slurmd for
// each node run in the foreground under one folder, with keys, sockets and
// ports of their own: as root or not, any number side by side, without touching
// a Slurm, munge or MariaDB that the system may run. It takes about 5 s to
// start (0.2 s without accounting) and 0.1 s to vanish.
//
// In a test:
//
//	func TestMain(m *testing.M) { os.Exit(lab.Main(m, lab.Options{})) }
//
//	func TestQueue(t *testing.T) {
//		l := lab.Shared(t) // one for the package; lab.ForTest(t, lab.Options{...}) for one of its own
//		id, err := l.Sbatch(t.Context(), "--gres=gpu:v100:1", "--qos=te", "--wrap=sleep 60")
//		...
//		err = l.WaitJob(t.Context(), id, "RUNNING")
//		out, err := l.As(lab.PlainUser).Run(t.Context(), "squeue") // as root only
//		err = l.Kill(t.Context(), "slurmctld") // Stop, Restart, Pause, Continue, StartDaemon
//	}
//
// Where Slurm is not installed such tests are skipped; SLURMPRIO_REQUIRE_LAB=1
// makes them fail. On a terminal:
//
//	tests/lab/lab.sh run -- sinfo     # a lab for one command
//	tests/lab/lab.sh shell            # a lab for one shell
//	eval "$(tests/lab/lab.sh start)"  # a lab until lab.sh stop DIR
//
// # The cluster
//
// Nodes a100-[1-3], v100-[1-3] and t4-[1-2] have 4 GPUs (gpu:a100 and so on,
// made of empty files), 16 CPUs, 64 GB and a feature named after the GPU type.
// Partitions are gpu (default) and interactive. QOS te (priority 100) may
// preempt be (priority 10) by requeue. Accounts are physics (default) and
// biology; users are the one that started the lab (SlurmUser, Administrator),
// OperatorUser, PlainUser and OtherUser. Priority is multifactor with weights
// that sum to 18,000. SLURM_CONF alone makes any client a client of the lab.
// No login file of the machine's is read (hosts.go).
// Options.Backup adds a second slurmctld that takes over when the first one
// falls, each under a host name of its own (hosts.go).
//
// # How it leaves no trace
//
// A program that uses this package starts itself again as the lab's keeper
// (keeper.go), and the keeper starts the daemons. As their subreaper
// (PR_SET_CHILD_SUBREAPER) it inherits every process of the lab that loses its
// parent, detached jobs included, so a lab's processes are exactly the keeper's
// descendants. A socket pair ties it to the program: when that ends, by Close,
// panic, os.Exit or kill -9, the keeper kills its descendants until the kernel
// says there are none (ECHILD), then removes the folder. There is no gentle
// shutdown: what a lab holds is worth nothing to anybody. Should somebody kill
// the keeper itself, the daemons die with it (PR_SET_PDEATHSIG), and Close or
// Remove finds the steps and jobs by what they hold. Only when both the keeper
// and its program are killed with -9 at once do running jobs and the folder
// stay, until "lab stop DIR".
package lab
