package fit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"slurmprio/tests/lab"
)

// generator makes random cases.
type generator struct{ *rand.Rand }

// perPlace is how many cases share their nodes.
const perPlace = 4

// cases makes so many places, each with some cases.
func (g generator) cases(places int, name string) (all []*Case) {
	selects := pick(g, "CR_Core_Memory", "CR_Core_Memory", "CR_Core_Memory", "CR_CPU_Memory", "CR_Core", "CR_Core_Memory,CR_ONE_TASK_PER_CORE", "CR_Socket_Memory")
	for i := range places {
		h := g.hardware(selects)
		for k := range perPlace {
			c := h.Case
			c.Name = fmt.Sprintf("%s/%d/%d", name, i, k)
			switch tight := g.one(0.3); {
			case tight:
				c.Running, c.Asks = g.tight(&h)
			default:
				for range 1 + g.IntN(4) {
					c.Running = append(c.Running, Run{g.one(0.7), g.running(&h)})
				}
				c.Asks = g.waiting(&h)
			}
			all = append(all, &c)
		}
	}
	return all
}

// hardware is a place, and what a request has to know of it.
type hardware struct {
	Case
	nodes []machine
}

// machine is one node.
type machine struct {
	sockets, cores, threads, cpus int // cores of a socket
	memory                        int
	gpus                          map[string]int // by type, "" for untyped
	all                           int            // GPUs
	others                        map[string]int
}

func (g generator) one(p float64) bool { return g.Float64() < p }

func (g generator) from(low, high int) int { return low + g.IntN(max(high-low, 0)+1) }

func pick[T any](g generator, all ...T) T { return all[g.IntN(len(all))] }

// hardware makes nodes, a partition and limits.
func (g generator) hardware(selects string) (h hardware) {
	h.Select = selects
	alike, m, line := g.one(0.6), machine{}, ""
	for i := range pick(g, 1, 1, 1, 2, 2, 3) {
		if i == 0 || !alike {
			m, line = g.machine(selects)
		}
		state := ""
		if i > 0 && g.one(0.1) {
			state = " State=DRAIN"
		}
		h.nodes, h.Nodes = append(h.nodes, m), append(h.Nodes, line+state)
	}
	if g.one(0.5) && h.nodes[0].all > 1 { // as GPUs of real nodes are (AutoDetect=nvml)
		h.bind()
	}
	h.Partition = g.partition(&h)
	if g.one(0.12) {
		h.QOS = g.limits()
	}
	if g.one(0.08) {
		h.Licences = "@lic:2"
	}
	return h
}

// bind gives each half of a node's GPUs to one socket.
func (h *hardware) bind() {
	for i, m := range h.nodes {
		if m.gpus[""]+m.gpus["a100"] != m.all || m.all < 2 || m.all%2 != 0 || m.sockets != 2 || m.others["shard"] > 0 {
			h.Gres = nil
			return
		}
		typed := ""
		if m.gpus["a100"] > 0 {
			typed = " Type=a100"
		}
		for s := range 2 {
			h.Gres = append(h.Gres, fmt.Sprintf("@%s1 Name=gpu%s File=/dev/gpu[%d-%d] Cores=%d-%d", nodeLetters[i:i+1], typed, s*m.all/2, (s+1)*m.all/2-1, s*m.cores, (s+1)*m.cores-1))
		}
		for _, name := range slices.Sorted(maps.Keys(m.others)) {
			count := m.others[name]
			h.Gres = append(h.Gres, fmt.Sprintf("@%s1 Name=%s Count=%d Flags=CountOnly", nodeLetters[i:i+1], name, count))
		}
	}
}

func (g generator) machine(selects string) (m machine, line string) {
	m = machine{sockets: pick(g, 1, 2, 2), cores: pick(g, 2, 4, 4, 8), threads: pick(g, 1, 2), memory: 1000 * pick(g, 8, 16, 32, 64), gpus: map[string]int{}, others: map[string]int{}}
	m.cpus = m.sockets * m.cores * m.threads
	var gres []string
	gpus := func(t string, n int) {
		m.gpus[t], m.all = n, m.all+n
		gres = append(gres, strings.ReplaceAll(fmt.Sprintf("gpu:%s:%d", t, n), "::", ":"))
	}
	switch g.IntN(10) {
	case 0, 1:
		gpus("", 4)
	case 2:
		gpus("a100", 2)
		gpus("v100", 2)
	case 3:
		gpus("a100", 8)
	case 4:
		gpus("", 2)
	default:
		gpus("a100", 4)
	}
	for _, other := range []struct {
		name  string
		count int
		share float64
	}{{"shard", 4 * m.all, 0.12}, {"lscratch", 100, 0.3}, {"fpga", 2, 0.1}} {
		if g.one(other.share) {
			m.others[other.name] = other.count
			gres = append(gres, fmt.Sprintf("%s:%d", other.name, other.count))
		}
	}
	line = fmt.Sprintf("CPUs=%d Sockets=%d CoresPerSocket=%d ThreadsPerCore=%d RealMemory=%d Gres=%s", m.cpus, m.sockets, m.cores, m.threads, m.memory, strings.Join(gres, ","))
	if g.one(0.3) {
		spec := m.memory / pick(g, 4, 8, 16)
		line += fmt.Sprintf(" MemSpecLimit=%d", spec)
	}
	if g.one(0.1) && selects != "CR_Socket_Memory" { // slurmctld refuses both together
		line += " CoreSpecCount=1"
	}
	if g.one(0.4) {
		line += " Feature=" + pick(g, "fast", "slow", "fast,ib")
	}
	if g.one(0.1) {
		line += " TmpDisk=10000"
	}
	if g.one(0.1) {
		line += fmt.Sprintf(" Weight=%d", g.from(1, 9))
	}
	return m, line
}

// partition makes its attributes: none in a third of the cases.
func (g generator) partition(h *hardware) string {
	m := h.nodes[0]
	all := []string{
		fmt.Sprintf("MaxCPUsPerNode=%d", g.from(1, m.cpus)), fmt.Sprintf("MaxCPUsPerNode=%d", max(m.cpus/2, 1)),
		fmt.Sprintf("MaxMemPerNode=%d", m.memory/pick(g, 1, 2, 4)), fmt.Sprintf("MaxMemPerCPU=%d", max(m.memory/m.cpus, 100)),
		fmt.Sprintf("MaxNodes=%d", g.from(1, 2)), fmt.Sprintf("MinNodes=%d", g.from(1, len(h.nodes))),
		"OverSubscribe=EXCLUSIVE", "ExclusiveUser=YES", "LLN=YES", fmt.Sprintf("DefMemPerCPU=%d", m.memory/m.cpus), fmt.Sprintf("DefMemPerNode=%d", m.memory/4),
		"DefCpuPerGPU=2", fmt.Sprintf("DefMemPerGPU=%d", m.memory/4), "OverSubscribe=YES", "OverSubscribe=NO", "QOS=@",
	}
	if lab.AtLeast(23, 11) {
		all = append(all, fmt.Sprintf("MaxCPUsPerSocket=%d", g.from(1, m.cpus/m.sockets)))
	}
	var lines []string
	for range pick(g, 0, 0, 1, 1, 1, 2) {
		line := pick(g, all...)
		key, _, _ := strings.Cut(line, "=")
		if line == "QOS=@" && h.QOS == "" || strings.Contains(strings.Join(lines, " "), key) || strings.HasPrefix(key, "DefMem") && strings.Contains(strings.Join(lines, " "), "DefMem") {
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " ")
}

// limits makes those of the QOS.
func (g generator) limits() string {
	return pick(g, "MaxTRESPerNode=gres/gpu=2", "MaxTRESPerNode=cpu=4", "MaxTRESPerJob=gres/gpu=2", "MaxTRESPerJob=cpu=4", "MinTRESPerJob=gres/gpu=1",
		"MinTRESPerJob=cpu=2", "MaxTRESPerUser=gres/gpu=3", "MaxTRESPerUser=cpu=8", "GrpTRES=node=1", "GrpTRES=gres/gpu=3", "MaxTRESPerUser=mem=20000", "GrpTRES=cpu=8")
}

// running is the request of a job that runs.
func (g generator) running(h *hardware) string {
	args := g.request(h, 0.5)
	if len(h.nodes) > 1 && g.one(0.6) {
		args = append(args, "-w", "@"+nodeLetters[:len(h.nodes)][g.IntN(len(h.nodes)):][:1]+"1")
	}
	return strings.Join(args, " ")
}

// waiting is the request of the trial.
func (g generator) waiting(h *hardware) string { return strings.Join(g.request(h, 1), " ") }

// tight are jobs of one GPU and some CPUs each, and a trial that asks for all CPUs that they leave, or for some less: whether it fits
// hangs on the sockets that these are on.
func (g generator) tight(h *hardware) (running []Run, asks string) {
	m := h.nodes[0]
	free := m.cpus
	for range min(1+g.IntN(5), m.all-1) {
		cpus := g.from(1, max(m.cpus/4, 1))
		run := Run{g.one(0.4), fmt.Sprintf("--gres=gpu:1 -c%d --mem=100", cpus)}
		if len(h.nodes) > 1 {
			run.Asks += " -w @a1"
		}
		if running = append(running, run); !run.Consents {
			free -= cpus
		}
	}
	gpus := g.from(1, max(m.all-len(running), 1))
	per := max(g.from(free/2, free)/gpus, 1)
	count := pick(g, "--gres=gpu:%d", "--gpus=%d", "--gpus=%d -N1", "--gpus-per-node=%d")
	asks = fmt.Sprintf(count, gpus) + " " + pick(g, fmt.Sprintf("--cpus-per-gpu=%d", per), fmt.Sprintf("--cpus-per-gpu=%d", per), fmt.Sprintf("-c%d", per*gpus), fmt.Sprintf("-n%d -c%d", gpus, per),
		fmt.Sprintf("-n%d", per*gpus), fmt.Sprintf("--ntasks-per-node=%d -c%d", gpus, per))
	if g.one(0.2) {
		asks = fmt.Sprintf("-n%d --gpus-per-task=1 -c%d", gpus, per)
	}
	return running, asks + " --mem=100"
}

// request makes sbatch's options; size is about what part of a node they take.
func (g generator) request(h *hardware, size float64) []string {
	m := h.nodes[g.IntN(len(h.nodes))]
	if len(h.nodes) > 1 && g.one(0.15) {
		return append(g.several(&m, size), g.memory(&m, 0.5*size, 0)...)
	}
	args, gpus := g.gpus(&m, size)
	args = append(args, g.cpus(&m, size, gpus, args)...)
	args = append(args, g.memory(&m, size, gpus)...)
	if g.one(0.3) {
		args = append(args, pick(g, "-N1", "-N1", "-N2", "-N1-2", "-N1-3"))
	}
	for range pick(g, 0, 0, 0, 1, 1, 2) {
		args = append(args, g.extra(h, &m)...)
	}
	return args
}

// several are the options of a job that lies, or may lie, on several nodes.
func (g generator) several(m *machine, size float64) []string {
	gpus := g.from(2, max(int(2*size*float64(m.all)), 2))
	args := []string{"-N2"}
	switch g.IntN(5) {
	case 0:
		return append(args, "--gpus-per-task=1", fmt.Sprintf("-n%d", gpus))
	case 1:
		args = append(args, fmt.Sprintf("--gpus-per-node=%d", max(gpus/2, 1)))
	case 2:
		args = []string{fmt.Sprintf("--gpus=%d", gpus)} // on one node, or on several
	default:
		args = append(args, fmt.Sprintf("--gpus=%d", gpus))
	}
	switch g.IntN(5) {
	case 0:
		args = append(args, fmt.Sprintf("-n%d", gpus))
	case 1:
		args = append(args, fmt.Sprintf("-n%d", g.from(2, 2*gpus)))
	case 2:
		args = append(args, fmt.Sprintf("--ntasks-per-node=%d", g.from(1, 4)))
	case 3:
		args = append(args, fmt.Sprintf("-c%d", g.from(1, max(m.cpus/2, 1))))
	}
	return args
}

// gpus are the options by which a job asks for GPUs.
func (g generator) gpus(m *machine, size float64) (args []string, gpus int) {
	gpus = g.from(1, max(int(size*float64(m.all)), 1))
	typed := ""
	if g.one(0.4) {
		if typed = pick(g, "a100:", "a100:", "v100:"); m.gpus[strings.TrimSuffix(typed, ":")] == 0 {
			typed = ""
		}
	}
	more := ""
	if m.others["lscratch"] > 0 && g.one(0.5) {
		more += fmt.Sprintf(",lscratch:%d", g.from(5, 60))
	}
	if m.others["fpga"] > 0 && g.one(0.4) {
		more += ",fpga:1"
	}
	count := fmt.Sprintf("%s%d", typed, gpus)
	switch g.IntN(14) {
	case 0, 1:
		args = []string{"--gpus=" + count}
	case 2:
		args = []string{"--gpus-per-node=" + count}
	case 3:
		args = []string{"--gpus-per-task=" + typed + "1", fmt.Sprintf("-n%d", gpus)}
	case 4:
		args = []string{"--gpus=" + count, fmt.Sprintf("--ntasks-per-gpu=%d", g.from(1, 2))}
	case 5:
		per := g.from(1, 2)
		args = []string{fmt.Sprintf("-n%d", per*gpus), fmt.Sprintf("--ntasks-per-gpu=%d", per)}
	case 6:
		if g.one(0.5) {
			return []string{"--exclusive"}, 0
		}
		args = []string{"--gpus-per-socket=" + typed + "1", fmt.Sprintf("--sockets-per-node=%d", m.sockets)}
	case 7:
		if m.others["shard"] > 0 {
			return []string{fmt.Sprintf("--gres=shard:%d", g.from(1, 6))}, 0
		}
		args = []string{"--gpus=" + count, "-N1"}
	default:
		return []string{"--gres=gpu:" + count + more}, gpus
	}
	if more != "" {
		args = append(args, "--gres="+strings.TrimPrefix(more, ","))
	}
	return args, gpus
}

// cpus are the options by which it asks for tasks and CPUs.
func (g generator) cpus(m *machine, size float64, gpus int, before []string) (args []string) {
	most := max(int(size*float64(m.cpus)), 1)
	asks := strings.Join(before, " ")
	tasks := strings.Contains(asks, "-n") || strings.Contains(asks, "ntasks")
	switch g.IntN(8) {
	case 0, 1:
		args = append(args, fmt.Sprintf("-c%d", g.from(1, most)))
	case 2:
		if !tasks {
			args = append(args, fmt.Sprintf("-n%d", g.from(1, most)))
		}
	case 3:
		if !tasks {
			n := g.from(1, 4)
			args = append(args, fmt.Sprintf("-n%d", n), fmt.Sprintf("-c%d", g.from(1, max(most/n, 1))))
		}
	case 4:
		if gpus > 0 {
			args = append(args, fmt.Sprintf("--cpus-per-gpu=%d", g.from(1, max(most/gpus, 1))))
		}
	case 5:
		if !tasks {
			args = append(args, fmt.Sprintf("--ntasks-per-node=%d", g.from(1, max(most/2, 1))))
		}
	}
	return args
}

// memory are the options by which it asks for memory.
func (g generator) memory(m *machine, size float64, gpus int) []string {
	most := max(int(size*float64(m.memory)), 100)
	switch g.IntN(10) {
	case 0, 1, 2, 3:
		return []string{fmt.Sprintf("--mem=%d", g.from(100, most))}
	case 4:
		return []string{fmt.Sprintf("--mem=%d", most)}
	case 5:
		return []string{fmt.Sprintf("--mem-per-cpu=%d", g.from(100, max(2*m.memory/m.cpus, 200)))}
	case 6:
		if gpus > 0 {
			return []string{fmt.Sprintf("--mem-per-gpu=%d", g.from(100, max(most/gpus, 200)))}
		}
	case 7:
		if g.one(0.4) {
			return []string{"--mem=0"}
		}
	}
	return nil
}

// extra is one of the options that few jobs have.
func (g generator) extra(h *hardware, m *machine) []string {
	one := pick(g,
		"--exclusive", "--exclusive=user", "--hint=nomultithread", "--hint=nomultithread", "--hint=compute_bound", "--threads-per-core=1",
		fmt.Sprintf("--ntasks-per-node=%d", g.from(1, 4)), "--ntasks-per-core=1", fmt.Sprintf("--ntasks-per-socket=%d", g.from(1, 2)),
		fmt.Sprintf("--cores-per-socket=%d", g.from(1, m.cores)), fmt.Sprintf("--sockets-per-node=%d", m.sockets), "--contiguous", "--spread-job",
		fmt.Sprintf("--mincpus=%d", g.from(1, m.cpus)), "--tmp=5000", "--constraint=fast", "--constraint=fast|slow", "--gres-flags=enforce-binding",
		"--overcommit", "--use-min-nodes", "--exclude=@a1", "--oversubscribe", "--licenses=@lic:1", "--switches=1", "--gres-flags=disable-binding", "--prefer=fast")
	if strings.HasPrefix(one, "--licenses") && h.Licences == "" || slices.Contains(deadly[release()], one) {
		return nil
	}
	return []string{one}
}

// deadly are options with which any user ends a slurmctld of a release. On 24.11.5 --gpus=1 --spread-job is a segmentation
// fault in each pass: _eval_nodes_spread hands eval_nodes_cpus_to_use no place for the number of tasks, and eval_nodes_gres
// reads it (topology/common/eval_nodes.c; seen with one node and nothing on it; --gres=gpu:1 --spread-job starts there).
var deadly = map[string][]string{"24.11": {"--spread-job"}}

// release is that of the Slurm here, "24.11".
func release() string {
	major, rest, _ := strings.Cut(lab.Version(), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major + "." + minor
}
