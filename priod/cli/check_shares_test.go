package cli

import (
	"strings"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/guarantee"
)

func TestSharesThatDoNotFit(t *testing.T) {
	nodes := []cluster.Node{
		{Name: "a1", GPUs: 8, GPUType: "a100", Partitions: []string{"gpu"}, Usable: true}, {Name: "a2", GPUs: 8, GPUType: "a100", Partitions: []string{"gpu"}, Usable: true},
		{Name: "v1", GPUs: 4, GPUType: "v100", Partitions: []string{"gpu", "old"}, Usable: true},
	}
	parents := map[string]string{"root": "", "vision": "root", "robots": "vision", "chem": "root", "small": "chem"}
	limits := map[string]map[string]int{"chem": {"": 12}, "small": {"v100": 2}}
	for name, c := range map[string]struct {
		shares []guarantee.Share
		want   string // "": nothing
	}{
		"they fit":                   {[]guarantee.Share{{Account: "vision", GPUs: 16}, {Account: "chem", Part: 0.2}}, ""},
		"too many":                   {[]guarantee.Share{{Account: "vision", GPUs: 16}, {Account: "chem", GPUs: 8}}, "the shares of vision, chem are 24 of 20 GPUs: 4 too many"},
		"too many of a type":         {[]guarantee.Share{{Account: "vision", GPUs: 6, GPUType: "v100"}}, "the shares of vision are 6 of 4 v100 GPUs: 2 too many"},
		"too many of a part":         {[]guarantee.Share{{Account: "chem", GPUs: 8, Partitions: []string{"old"}}}, "the shares of chem are 8 of 4 GPUs of partition old: 4 too many"},
		"together":                   {[]guarantee.Share{{Account: "vision", GPUs: 16, GPUType: "a100"}, {Account: "chem", GPUs: 6}}, "the shares of vision, chem are 22 of 20 GPUs on which they can lie: 2 too many"},
		"on partitions that overlap": {[]guarantee.Share{{Account: "vision", GPUs: 3, GPUType: "v100"}, {Account: "chem", GPUs: 2, Partitions: []string{"old"}}}, "the shares of vision, chem are 5 of 4 GPUs on which they can lie: 1 too many"},
		"an account that is gone":    {[]guarantee.Share{{Account: "bio", GPUs: 4}}, `[[share]] "bio": this cluster has no such account in slurmdbd; its share is kept for no job`},
		"one that was renamed":       {[]guarantee.Share{{Account: "former", GPUs: 4}}, `[[share]] "former": this cluster has no such account in slurmdbd; it was renamed or removed while 2 of its jobs are in the queue`},
		"one below another":          {[]guarantee.Share{{Account: "vision", GPUs: 4}, {Account: "robots", GPUs: 4}}, `[[share]] "robots" is below "vision"`},
		"a type that is not there":   {[]guarantee.Share{{Account: "vision", GPUs: 4, GPUType: "h100"}}, `[[share]] "vision": no node has h100 GPUs`},
		"a part of such a type":      {[]guarantee.Share{{Account: "vision", Part: 0.5, GPUType: "h100"}}, `[[share]] "vision": no node has h100 GPUs`},
		"a part of a GPU":            {[]guarantee.Share{{Account: "vision", Part: 0.1, GPUType: "v100"}}, `[[share]] "vision": part = 0.1 of 4 v100 GPUs is less than one GPU`},
		"a limit below it":           {[]guarantee.Share{{Account: "chem", GPUs: 13}}, `[[share]] "chem": its share of 13 GPUs is above what account chem may use at a time (GrpTRES=gres/gpu=12)`},
		"a limit of the type":        {[]guarantee.Share{{Account: "small", GPUs: 3, GPUType: "v100"}}, `is above what account small may use at a time (GrpTRES=gres/gpu:v100=2)`},
		"a limit above it":           {[]guarantee.Share{{Account: "small", GPUs: 14, GPUType: "a100"}}, `is above what account chem may use at a time (GrpTRES=gres/gpu=12)`},
	} {
		x := shareCheck{shares: c.shares, nodes: nodes, jobs: []cluster.Job{{Account: "former"}, {Account: "former"}, {Account: "chem"}}, parents: parents, limits: limits}
		found := x.findings()
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) == 0 || !strings.Contains(found[0].Text, c.want)) || len(found) > 1 && !strings.Contains(name, "type that is not") && !strings.Contains(name, "of a type") {
			t.Errorf("%s: %+v, want %q", name, found, c.want)
		}
	}
	nodes[1].Usable = false
	x := shareCheck{shares: []guarantee.Share{{Account: "vision", GPUs: 10}}, nodes: nodes}
	if found := x.findings(); len(found) != 1 || found[0].Text != `[[share]] "vision": 8 of 20 GPUs are out of service: at present its share is 6 of 10` {
		t.Errorf("a node that is down: %+v", found)
	}
	x = shareCheck{shares: []guarantee.Share{{Account: "bio", GPUs: 400}}}
	if found := x.findings(); len(found) > 0 {
		t.Errorf("nothing known: %+v", found)
	}
}
