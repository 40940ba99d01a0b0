package cli

import (
	"strings"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/guarantee"
)

func TestSharesThatDoNotFit(t *testing.T) {
	nodes := []cluster.Node{
		{Name: "a1", GPUs: 8, GPUType: "a100", Partitions: []string{"gpu"}, Usable: true}, {Name: "a2", GPUs: 8, GPUType: "a100", Partitions: []string{"gpu"}},
		{Name: "v1", GPUs: 4, GPUType: "v100", Partitions: []string{"gpu", "old"}, Usable: true},
	}
	tree := cluster.Accounts{Parents: map[string]string{"root": "", "vision": "root", "robots": "vision", "chem": "root"}}
	for name, c := range map[string]struct {
		shares []guarantee.Share
		want   string // "": nothing
	}{
		"they fit":                {[]guarantee.Share{{Account: "vision", GPUs: 16}, {Account: "chem", Part: 0.2}}, ""},
		"too many":                {[]guarantee.Share{{Account: "vision", GPUs: 16}, {Account: "chem", GPUs: 8}}, "the shares of vision, chem are 24 of 20 GPUs: 4 too many"},
		"too many of a type":      {[]guarantee.Share{{Account: "vision", GPUs: 6, GPUType: "v100"}}, "the shares of vision are 6 of 4 v100 GPUs: 2 too many"},
		"too many of a part":      {[]guarantee.Share{{Account: "chem", GPUs: 8, Partitions: []string{"old"}}}, "the shares of chem are 8 of 4 GPUs of partition old: 4 too many"},
		"together":                {[]guarantee.Share{{Account: "vision", GPUs: 16, GPUType: "a100"}, {Account: "chem", GPUs: 6}}, "all shares together are 22 of the 20 GPUs of this cluster: 2 too many"},
		"an account that is gone": {[]guarantee.Share{{Account: "bio", GPUs: 4}}, `[[share]] "bio": this cluster has no such account in slurmdbd`},
		"one below another":       {[]guarantee.Share{{Account: "vision", GPUs: 4}, {Account: "robots", GPUs: 4}}, `[[share]] "robots" is below "vision"`},
	} {
		found := sharesFit(c.shares, nodes, tree)
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0].Text, c.want)) {
			t.Errorf("%s: %+v, want %q", name, found, c.want)
		}
	}
	if found := sharesFit([]guarantee.Share{{Account: "bio", GPUs: 400}}, nil, cluster.Accounts{}); len(found) > 0 {
		t.Errorf("nothing known: %+v", found)
	}
}
