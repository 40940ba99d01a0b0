package simulate

import (
	"fmt"
	"strings"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/trace"
)

func shared(jobs ...trace.Job) Input {
	return Input{
		Cluster: trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a", GPUs: 4}, {Count: 1, GPUType: "b", GPUs: 4}}}, Jobs: trace.Each(jobs),
		Config: &config.Config{Shares: []config.Share{{Account: "chem", GPUs: 4}, {Account: "vision", Part: 0.5}}},
	}
}

// GrpTRES keeps an account at its GPUs although others are free, Fairshare alone does not.
func TestQuotas(t *testing.T) {
	jobs := []trace.Job{{ID: "1", Account: "chem", GPUs: 4, Duration: 100, Limit: 100}, {ID: "2", Account: "chem", GPUs: 4, Duration: 100, Limit: 100}}
	for order, start := range map[string]float64{FairShare: 0, Quotas: 100} {
		spec := Spec{Order: order, Backfill: "easy"}
		if err := spec.Check(); err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), spec, shared(jobs...))
		if err != nil || r.Outcomes[1].Start != start {
			t.Errorf("%s: %+v, %v", order, r.Outcomes, err)
		}
	}
}

// An owner has whole nodes, the largest first, of the type of which most are left; its jobs name its partition, those that
// may be requeued the guests' too, and those that it cannot hold and those of others the guests' alone.
func TestOwners(t *testing.T) {
	in := shared(
		trace.Job{ID: "1", Account: "chem", GPUs: 4, Duration: 100, Class: cluster.BE}, trace.Job{ID: "2", Account: "chem", GPUs: 1, Duration: 100, Class: cluster.BE, Untagged: true},
		trace.Job{ID: "3", Account: "chem", GPUs: 8, Duration: 100, Class: cluster.BE}, trace.Job{ID: "4", Account: "art", GPUs: 1, Duration: 100, Class: cluster.BE},
	)
	spec := Spec{Order: Owners, Backfill: "easy"}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	if _, err := spec.Options(&in); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range in.Cluster.Nodes {
		got = append(got, g.GPUType+":"+strings.Join(g.Partitions, "+"))
	}
	for j := range in.Jobs {
		got = append(got, j.Partition)
	}
	if want := "[a:guests+vision a:guests+vision b:guests+chem chem,guests chem guests guests]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestOwnedNeedsShares(t *testing.T) {
	in := shared()
	in.Config.Shares = nil
	for _, order := range []string{FairShare, Quotas, Owners} {
		spec := Spec{Order: order, Backfill: "easy"}
		if _, err := spec.Options(&in); err == nil || !strings.Contains(err.Error(), "--order "+order+" wants [[share]] tables") {
			t.Errorf("%s: %v", order, err)
		}
	}
}
