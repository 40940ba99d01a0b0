package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

func actions(ids string) (all []plan.Action) {
	for id := range strings.FieldsSeq(ids) {
		job, _ := slurmplug.ParseJobID(id)
		all = append(all, plan.Action{Job: job})
	}
	return all
}

// says is a Slurm whose every command prints the same.
type says string

func (s says) Run(context.Context, slurmplug.Command) (slurmplug.Output, error) {
	return slurmplug.Output{Stdout: []byte(s)}, nil
}

// facts of a cluster where all is well; conf lines replace its own.
func facts(t *testing.T, conf ...string) *Facts {
	t.Helper()
	values := map[string]string{
		"SLURM_VERSION": "22.05.8", "ClusterName": "c", "PriorityType": "priority/multifactor", "PriorityWeightAge": "1000",
		"AccountingStorageType": "accounting_storage/slurmdbd", "AccountingStorageTRES": "cpu,gres/gpu,gres/gpu:a100",
		"AccountingStoreFlags": "job_comment", "PreemptType": "preempt/none", "SelectTypeParameters": "CR_CORE_MEMORY", "DefMemPerCPU": "1024",
		"MinJobAge": "300 sec",
	}
	for _, line := range conf {
		k, v, _ := strings.Cut(line, "=")
		values[k] = v
	}
	text := ""
	for k, v := range values {
		text += k + " = " + v + "\n"
	}
	parsed, err := slurmplug.NewClient(says(text+"\nSlurmctld(primary) at h is UP\n"), slurmplug.Options{}).Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := &Facts{
		Config: parsed, Partitions: []slurmplug.Partition{{Name: "gpu"}}, QOS: []string{"te"},
		Nodes:  []slurmplug.Node{{Name: "a1", Features: []string{"a100"}, Gres: []slurmplug.Gres{{Name: "gpu", Type: "a100", Count: 4}}}},
		Rights: slurmplug.Rights{User: "priod", Level: slurmplug.Operator, Why: "sacctmgr"},
	}
	f.Abilities.Release = parsed.Version()
	f.Snapshot.Multifactor.Span, _ = parsed.WeightSum()
	return f
}

func settings() order.Settings {
	return order.Settings{Top: 2_000_000_000, Ranking: plan.Classes{Partitions: []string{"gpu"}, TEQOS: []string{"te"}}}
}

// sameWeights makes three nodes of one type and weight.
func sameWeights(f *Facts, _ *order.Settings) {
	n := f.Nodes[0]
	n.Partitions, n.Weight, f.Nodes = []string{"gpu"}, 7, nil
	for _, name := range []string{"a1", "a2", "a3"} {
		n.Name = name
		f.Nodes = append(f.Nodes, n)
	}
}

// Weights are suggested where they are equal, and in ranked partitions.
func TestNoWeightIsSuggested(t *testing.T) {
	for what, change := range map[string]func(*Facts, *order.Settings){
		"they differ": func(f *Facts, _ *order.Settings) { f.Nodes[2].Weight = 8 },
		"other partition": func(f *Facts, _ *order.Settings) {
			f.Nodes[1].Partitions, f.Nodes[2].Partitions = []string{"cpu"}, []string{"cpu"}
		},
		"one GPU each": func(f *Facts, _ *order.Settings) { f.Nodes[0].Gres[0].Count = 1 },
	} {
		f, set := facts(t), settings()
		sameWeights(f, &set)
		change(f, &set)
		for _, x := range f.Findings(set) {
			if x.Name == "packing" {
				t.Errorf("%s: %+v", what, x)
			}
		}
	}
}

func TestAllIsWell(t *testing.T) {
	well := facts(t)
	well.Evicts = true
	for _, f := range well.Findings(settings()) {
		if f.Level != Pass {
			t.Errorf("%+v", f)
		}
	}
}

func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name   string
		conf   []string
		change func(*Facts, *order.Settings)
		level  Level
		fix    string // part of the fix or the text
	}{
		{name: "old Slurm", conf: []string{"SLURM_VERSION=21.08.1"}, level: Fail, fix: "22.05"},
		{name: "a Slurm newer than any that was tried", conf: []string{"SLURM_VERSION=27.05.0"}, level: Fail, fix: "slurm.untried"},
		{name: "such a Slurm, allowed", conf: []string{"SLURM_VERSION=27.05.0"}, level: Warn, fix: "newer than 26.05", change: func(f *Facts, _ *order.Settings) { f.Untried = true }},
		{name: "upgrade under way", conf: []string{"SLURM_VERSION=24.11.5"}, level: Fail, fix: "upgrade under way", change: func(f *Facts, _ *order.Settings) { f.Abilities.Release = "22.05.8" }},
		{name: "what was tried", level: Pass, fix: "22.05, 24.11, 26.05"},
		{name: "what the commands can do", level: Pass, fix: "SLUID", change: func(f *Facts, _ *order.Settings) { f.Abilities.SLUID = true }},
		{name: "whole nodes", level: Warn, fix: "gpu (Exclusive=NODE)", change: func(f *Facts, _ *order.Settings) { f.Partitions[0].WholeNodes = "Exclusive=NODE" }},
		{name: "least loaded nodes first", conf: []string{"SelectTypeParameters=CR_CORE_MEMORY,CR_LLN"}, level: Warn, fix: "SelectTypeParameters=CR_CORE_MEMORY"},
		{name: "in a partition", level: Warn, fix: "PartitionName=gpu LLN=NO", change: func(f *Facts, _ *order.Settings) { f.Partitions[0].LeastLoaded = true }},
		{name: "one weight", level: Pass, fix: "all 3 a100 nodes have Weight 7: give some a higher one (NodeName=a3 Weight=8)", change: sameWeights},
		{name: "several QOS", level: Pass, fix: "such as te,normal", change: func(f *Facts, _ *order.Settings) {
			f.Snapshot.Jobs = []cluster.Job{{ID: slurmplug.Plain(1), State: cluster.Pending, Partition: "gpu", QOS: "te,normal"}}
		}},
		{name: "expedited requeue", conf: []string{"SlurmctldParameters=a=1,enable_expedited_requeue"}, level: Pass, fix: "never evicted"},
		{name: "metrics of slurmctld", conf: []string{"MetricsType=metrics/openmetrics"}, level: Pass, fix: "metrics/openmetrics"},
		{name: "sizing without restricted cores", conf: []string{"SLURM_VERSION=24.11.5"}, level: Warn, fix: "NodeName=a1 RestrictedCoresPerGPU", change: func(f *Facts, _ *order.Settings) { f.Sizing = true }},
		{name: "basic priority", conf: []string{"PriorityType=priority/basic"}, level: Fail, fix: "PriorityType=priority/multifactor"},
		{name: "a plugin", conf: []string{"PrioritySiteFactorPlugin=site_factor/x"}, level: Fail, fix: "PrioritySiteFactorPlugin="},
		{name: "steps do not fit", conf: []string{"PriorityWeightAge=1999999999"}, level: Fail, fix: "the highest value that priod writes"},
		{name: "few steps", conf: []string{"PriorityWeightAge=90000000"}, level: Warn, fix: "ranks, "},
		{name: "more TE jobs than places", conf: []string{"PriorityWeightAge=90000000"}, level: Warn, fix: "30 TE jobs wait",
			change: func(f *Facts, _ *order.Settings) {
				for id := range uint32(30) {
					f.Snapshot.Jobs = append(f.Snapshot.Jobs, cluster.Job{ID: slurmplug.Plain(id + 1), State: cluster.Pending, Partition: "gpu",
						Priority: 5, Eligible: time.Unix(1, 0), Tag: jobtag.Tag{Type: "te"}})
				}
				f.Snapshot.At = time.Unix(5, 0)
			}},
		{name: "factors without bound", conf: []string{"PriorityFlags=NO_NORMAL_ALL"}, level: Warn, fix: "NO_NORMAL_ALL"},
		{name: "no rights", level: Fail, fix: "adminlevel=Operator", change: func(f *Facts, _ *order.Settings) { f.Rights.Level = slurmplug.NoAdmin }},
		{name: "rights unknown", level: Warn, fix: "boom", change: func(f *Facts, _ *order.Settings) { f.RightsErr = errors.New("boom") }},
		{name: "unknown partition", level: Fail, fix: `"big"`, change: func(_ *Facts, s *order.Settings) { s.Ranking.Partitions = []string{"big"} }},
		{name: "no accounting", conf: []string{"AccountingStorageType=accounting_storage/none"}, level: Warn, fix: "AccountingStorageType=accounting_storage/slurmdbd"},
		{name: "untracked type", conf: []string{"AccountingStorageTRES=cpu,gres/gpu"}, level: Warn, fix: "AccountingStorageTRES=gres/gpu,gres/gpu:a100"},
		{name: "comments dropped", conf: []string{"AccountingStoreFlags=(null)"}, level: Warn, fix: "AccountingStoreFlags=job_comment"},
		{name: "no node feature", level: Warn, fix: "NodeName=a1 Feature=a100", change: func(f *Facts, _ *order.Settings) { f.Nodes[0].Features = nil }},
		{name: "no feature on one node", level: Warn, fix: "steered jobs cannot run on a2: it has no feature a100", change: func(f *Facts, _ *order.Settings) {
			f.Nodes = append(f.Nodes, f.Nodes[0])
			f.Nodes[1].Name, f.Nodes[1].Features = "a2", nil
		}},
		{name: "the line for that node", level: Warn, fix: "NodeName=a2 Feature=a100", change: func(f *Facts, _ *order.Settings) {
			f.Nodes = append(f.Nodes, f.Nodes[0])
			f.Nodes[1].Name, f.Nodes[1].Features = "a2", nil
		}},
		{name: "another feature", level: Pass, fix: "its own node feature", change: func(f *Facts, _ *order.Settings) {
			f.Nodes[0].Features, f.Steer.Features = []string{"ampere"}, map[string]string{"a100": "ampere"}
		}},
		{name: "a feature of two types", level: Warn, fix: "a2 has the feature a100 and other GPUs", change: func(f *Facts, _ *order.Settings) {
			f.Nodes = append(f.Nodes, slurmplug.Node{Name: "a2", Features: []string{"a100", "v100"}, Gres: []slurmplug.Gres{{Name: "gpu", Type: "v100", Count: 4}}})
		}},
		{name: "and what to do about it", level: Warn, fix: "gpu_types.a100.feature", change: func(f *Facts, _ *order.Settings) {
			f.Nodes = append(f.Nodes, slurmplug.Node{Name: "a2", Features: []string{"a100", "v100"}, Gres: []slurmplug.Gres{{Name: "gpu", Type: "v100", Count: 4}}})
		}},
		{name: "more kinds of nodes than are told apart", level: Warn, fix: "no job is steered, sized or given room on a65", change: func(f *Facts, _ *order.Settings) {
			for i := range 64 {
				n := f.Nodes[0]
				n.Name, n.Partitions = fmt.Sprint("a", i+2), []string{"gpu", fmt.Sprint("rack", i)}
				f.Nodes = append(f.Nodes, n)
			}
		}},
		{name: "MIG", level: Warn, fix: "slice of a GPU", change: func(f *Facts, _ *order.Settings) {
			f.Nodes[0].Gres[0].Type, f.Nodes[0].Features = "a100_1g.5gb", []string{"a100_1g.5gb"}
		}},
		{name: "a type renamed", level: Warn, fix: "no node has GPU type tesla", change: func(f *Facts, _ *order.Settings) {
			f.Steer.Features = map[string]string{"tesla": "tesla"}
		}},
		{name: "steering with one type", level: Fail, fix: "two GPU types", change: func(f *Facts, _ *order.Settings) { f.Steer.Enabled = true }},
		{name: "untyped GPUs", level: Warn, fix: "Gres=gpu:TYPE", change: func(f *Facts, _ *order.Settings) { f.Nodes[0].Gres[0].Type = "" }},
		{name: "two types on a node", level: Warn, fix: "several GPU types on one node", change: func(f *Facts, _ *order.Settings) {
			f.Nodes[0].Gres = append(f.Nodes[0].Gres, slurmplug.Gres{Name: "gpu", Type: "v100", Count: 1})
		}},
		{name: "no GPUs", level: Warn, fix: "no node has GPUs", change: func(f *Facts, _ *order.Settings) { f.Nodes = nil }},
		{name: "unknown QOS", level: Fail, fix: "sacctmgr -i add qos te", change: func(f *Facts, _ *order.Settings) { f.QOS = nil }},
		{name: "QOS unreadable", level: Fail, fix: "boom", change: func(f *Facts, _ *order.Settings) { f.QOSErr = errors.New("boom") }},
		{name: "suspend", conf: []string{"PreemptType=preempt/qos", "PreemptMode=GANG,SUSPEND"}, level: Warn, fix: "PreemptMode=REQUEUE"},
		{name: "RPC limit", conf: []string{"SlurmctldParameters=a=1,rl_enable,rl_bucket_size=50"}, level: Warn, fix: "(rl_enable,rl_bucket_size=50; "},
		{name: "RPC limit of others", conf: []string{"SlurmctldParameters=rl_enable"}, level: Pass, fix: "priod is exempt (SlurmUser)", change: func(f *Facts, _ *order.Settings) {
			f.Rights.Why = "SlurmUser"
		}},
		{name: "no default memory", conf: []string{"DefMemPerCPU=(null)", "DefMemPerNode=UNLIMITED"}, level: Warn, fix: "DefMemPerCPU"},
		{name: "outputs without root", level: Warn, fix: "only root can read", change: func(f *Facts, _ *order.Settings) { f.Retries, f.Outputs = true, true }},
		{name: "memory of failures unmeasured", conf: []string{"JobAcctGatherType=jobacct_gather/none"}, level: Warn, fix: "OUT_OF_MEMORY", change: func(f *Facts, _ *order.Settings) { f.Retries = true }},
		{name: "failures", conf: []string{"JobAcctGatherType=jobacct_gather/linux"}, level: Pass, fix: "can be read", change: func(f *Facts, _ *order.Settings) { f.Retries, f.Outputs, f.Root = true, true, true }},
		{name: "sizing without backfill", conf: []string{"SchedulerType=sched/builtin"}, level: Warn, fix: "sched/backfill", change: func(f *Facts, _ *order.Settings) { f.Sizing = true }},
		{name: "sizing without cons_tres", conf: []string{"SelectType=select/linear"}, level: Fail, fix: "select/cons_tres", change: func(f *Facts, _ *order.Settings) { f.Sizing = true }},
		{name: "sizing without memory", conf: []string{"SelectType=select/cons_tres", "SelectTypeParameters=CR_CORE"}, level: Fail, fix: "does not count memory", change: func(f *Facts, _ *order.Settings) { f.Sizing = true }},
		{name: "sizing without DefCpuPerGPU", conf: []string{"SelectType=select/cons_tres", "SelectTypeParameters=CR_CORE_MEMORY"}, level: Warn, fix: "DefCpuPerGPU", change: func(f *Facts, _ *order.Settings) { f.Sizing = true }},
		{name: "sizing without limits", conf: []string{"SelectType=select/cons_tres", "SelectTypeParameters=CR_CORE_MEMORY"}, level: Fail, fix: "boom", change: func(f *Facts, _ *order.Settings) { f.Sizing, f.LimitsErr = true, errors.New("boom") }},
		{name: "sizing as an operator", conf: []string{"SelectType=select/cons_tres", "SelectTypeParameters=CR_CORE_MEMORY", "AccountingStorageEnforce=associations,limits"}, level: Pass, fix: "written as operator", change: func(f *Facts, _ *order.Settings) { f.Sizing = true }},
		{name: "sizing in users' names", conf: []string{"SelectType=select/cons_tres", "SelectTypeParameters=CR_CORE_MEMORY", "AccountingStorageEnforce=safe"}, level: Pass, fix: "as the job's user", change: func(f *Facts, _ *order.Settings) {
			f.Sizing, f.Rights.Level = true, slurmplug.Administrator
		}},
		{name: "sizing in a bounded partition", conf: []string{"SelectType=select/cons_tres", "SelectTypeParameters=CR_CORE_MEMORY"}, level: Warn, fix: "MaxCPUsPerNode=8", change: func(f *Facts, _ *order.Settings) {
			f.Sizing, f.Partitions[0].SizeLimit = true, "MaxCPUsPerNode=8"
		}},
		{name: "locality without a tree", conf: []string{"TopologyPlugin=topology/default"}, level: Warn, fix: "TopologyPlugin=topology/tree", change: func(f *Facts, _ *order.Settings) { f.Switches = time.Hour }},
		{name: "locality with a short wait", conf: []string{"TopologyPlugin=topology/tree"}, level: Warn, fix: "max_switch_wait=3600", change: func(f *Facts, _ *order.Settings) { f.Switches = time.Hour }},
		{name: "locality with CR_LLN", conf: []string{"TopologyPlugin=topology/tree", "SelectTypeParameters=CR_CORE_MEMORY,CR_LLN"}, level: Warn, fix: "CR_LLN spreads", change: func(f *Facts, _ *order.Settings) { f.Switches = time.Minute }},
		{name: "locality", conf: []string{"TopologyPlugin=topology/tree", "SchedulerParameters=bf_continue,max_switch_wait=7200"}, level: Pass, fix: "1h0m0s at most", change: func(f *Facts, _ *order.Settings) { f.Switches = time.Hour }},
		{name: "short memory of jobs", conf: []string{"MinJobAge=2 sec"}, level: Warn, fix: "MinJobAge"},
		{name: "too short to find victims", conf: []string{"MinJobAge=120 sec"}, level: Warn, fix: "is not requeued", change: func(f *Facts, _ *order.Settings) { f.Evicts = true }},
	} {
		f, set := facts(t, c.conf...), settings()
		if c.change != nil {
			c.change(f, &set)
		}
		found := f.Findings(set)
		if !slices.ContainsFunc(found, func(x Finding) bool {
			return x.Level == c.level && (strings.Contains(x.Fix, c.fix) || strings.Contains(x.Text, c.fix))
		}) {
			t.Errorf("%s: no %s with %q in %+v", c.name, c.level, c.fix, found)
		}
	}
}

func TestATypeWithANodeWithoutItsFeatureIsNotAllWell(t *testing.T) {
	f := facts(t)
	f.Nodes = append(f.Nodes, f.Nodes[0])
	f.Nodes[1].Name, f.Nodes[1].Features = "a2", nil
	for _, x := range f.Findings(settings()) {
		if x.Level == Pass && x.Name == "GPU types" {
			t.Errorf("%+v", x)
		}
	}
}

// What cannot be read is said once for each reason, and all else is told.
func TestFactsThatCannotBeRead(t *testing.T) {
	boom, bang := errors.New("boom"), errors.New("bang")
	for name, c := range map[string]struct {
		change        func(*Facts)
		fails         int
		there, absent string // names of findings
	}{
		"the queue":         {func(f *Facts) { f.QueueErr = boom }, 1, "version commands rights partitions", "steps"},
		"the nodes":         {func(f *Facts) { f.NodesErr, f.QueueErr = boom, boom }, 1, "version commands rights partitions", "GPU types"},
		"the commands":      {func(f *Facts) { f.AbilitiesErr, f.QueueErr = boom, bang }, 2, "version rights", "steps"},
		"the configuration": {func(f *Facts) { f.ConfigErr, f.QueueErr = boom, boom }, 1, "commands partitions QOS", "version"},
		"the partitions":    {func(f *Facts) { f.PartitionsErr = boom }, 1, "version steps", "sizing"},
		"anything": {func(f *Facts) {
			f.AbilitiesErr, f.ConfigErr, f.PartitionsErr, f.NodesErr, f.QueueErr, f.QOSErr = boom, boom, boom, boom, boom, boom
		}, 2, "", "version"},
	} {
		f := facts(t)
		c.change(f)
		found := map[string]bool{}
		fails := 0
		for _, x := range f.Findings(settings()) {
			found[x.Name] = true
			if x.Level == Fail {
				fails++
			}
		}
		if fails != c.fails || found[c.absent] {
			t.Errorf("%s: %d failed, %v", name, fails, found)
		}
		for _, word := range strings.Fields(c.there) {
			if !found[word] {
				t.Errorf("%s: nothing is said of %s", name, word)
			}
		}
	}
}

// Weights that add up to more than the highest value that priod writes leave exact places where the queue's factors lie
// close together, and check says by what the step goes.
func TestLargeWeights(t *testing.T) {
	f := facts(t, "PriorityWeightAge=1000000000", "PriorityWeightQOS=2000000000")
	f.Snapshot.Multifactor.Seen, f.Snapshot.Multifactor.Highest, f.Snapshot.Multifactor.Polled = 40_000, 900_000_000, true
	var said []string
	for _, x := range f.Findings(settings()) {
		if x.Name == "steps" {
			said = append(said, string(x.Level)+" "+x.Text)
		}
	}
	if len(said) != 2 || !strings.Contains(said[0], "PASS the priority weights add up to 3000000000") || !strings.HasPrefix(said[1], "PASS 100 ranks for TE jobs, 10000000 apart") {
		t.Errorf("%q", said)
	}
}
