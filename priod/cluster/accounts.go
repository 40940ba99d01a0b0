package cluster

// Accounts are those of Slurm's associations.
type Accounts struct {
	Parts   map[string]float64 // of the cluster, by fair share
	Parents map[string]string  // the account above each; "" above the root
}
