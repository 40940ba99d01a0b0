package idle

import (
	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// loads are the CPU loads of the nodes, and which jobs run there. hosts are host lists, expanded in earlier cycles.
type loads struct {
	nodes map[string]*nodeLoad
	hosts map[string][]string
}

type nodeLoad struct {
	load cluster.Load
	jobs int
}

// mostLists is how many host lists are kept.
const mostLists = 50_000

// see takes in a snapshot.
func (l *loads) see(s *cluster.Snapshot) {
	l.nodes = make(map[string]*nodeLoad, len(s.Nodes))
	all := make([]nodeLoad, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if all[i].load = n.Load; n.Silent {
			all[i].load.Known = false
		}
		l.nodes[n.Name] = &all[i]
	}
	if l.hosts == nil || len(l.hosts) > mostLists {
		l.hosts = map[string][]string{}
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State != cluster.Pending && j.NodeList != "" {
			for _, h := range l.of(j.NodeList) {
				if n := l.nodes[h]; n != nil {
					n.jobs++
				}
			}
		}
	}
}

func (l *loads) of(list string) []string {
	hosts, known := l.hosts[list]
	if !known {
		hosts, _ = slurmplug.ExpandHosts(list)
		l.hosts[list] = hosts
	}
	return hosts
}

// sign is what the load of its nodes shows of a job: no work where all that runs there together takes less than a job with
// GPUs does, and work where it has its nodes alone and takes more.
func (l *loads) sign(j *cluster.Job, cpus float64) (sign cluster.Sign, tells bool) {
	hosts := l.of(j.NodeList)
	sum, alone := 0.0, true
	for _, h := range hosts {
		n := l.nodes[h]
		if n == nil || !n.load.Known {
			return sign, false
		}
		sum, alone = sum+n.load.CPUs, alone && n.jobs == 1
	}
	sign = cluster.Sign{Shows: cluster.CPUs, Source: cluster.FromLoad, Works: sum >= cpus*float64(j.GPUs), Value: sum}
	return sign, len(hosts) > 0 && (alone || !sign.Works)
}
