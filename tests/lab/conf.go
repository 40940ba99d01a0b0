package lab

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// ports of one lab; the slurmds follow Slurmd in the order of nodeNames.
type ports struct{ Slurmctld, Slurmdbd, Slurmd int }

// host holds the loopback address that this machine's name resolves to, which
// is what Slurm's daemons bind to when told to stay off the other interfaces.
// With "" (no such address) they bind to all interfaces, and munge's key alone
// keeps strangers out.
type host struct {
	Addr string
	// Hosts: the daemons get the lab's own /etc/hosts, in which the name is 127.0.0.1.
	Hosts bool
}

const loopback = "127.0.0.1"

// accountingDatabase is slurmdbd's, in MariaDB.
const accountingDatabase = "slurm_acct_db"

// binding gives CommunicationParameters, and the address of the controllers.
func (h host) binding() (params []string, addr string) {
	switch h.Addr {
	case "":
		return nil, loopback
	case loopback:
		return []string{"CommunicationParameters=NoInAddrAny,NoCtldInAddrAny"}, loopback
	}
	// Debian's 127.0.1.1: srun would listen there and be called at the source
	// of its packets, 127.0.0.1; so only the controllers keep to it. slurmdbd, too,
	// calls slurmctld there, to tell it of new limits.
	if h.Hosts {
		return []string{"CommunicationParameters=NoCtldInAddrAny"}, loopback
	}
	return []string{"CommunicationParameters=NoCtldInAddrAny"}, h.Addr
}

// nodeNames lists the nodes in the order of slurm.conf.
func nodeNames(specs []NodeSpec) []string {
	var names []string
	for _, n := range specs {
		for i := 1; i <= n.Count; i++ {
			names = append(names, fmt.Sprintf("%s%d", n.Prefix, i))
		}
	}
	return names
}

// gpuTypes lists the GRES types, each once, in order of appearance.
func gpuTypes(specs []NodeSpec) []string {
	var types []string
	for _, n := range specs {
		for _, t := range []string{n.GPUType, n.Second} {
			if n.GPUs > 0 && t != "" && !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	}
	return types
}

func slurmConf(dir, me string, h host, p ports, o Options) string {
	conf := []string{
		"ClusterName=lab",
		"SlurmUser=" + me,
		"SlurmdUser=" + me,
		"AuthType=auth/munge",
		"CredType=cred/munge",
		"AuthInfo=socket=" + dir + "/run/munge.sock",
		fmt.Sprintf("SlurmctldPort=%d", p.Slurmctld),
		"StateSaveLocation=" + dir + "/state",
		"SlurmdSpoolDir=" + dir + "/spool/%n",
		"SlurmctldPidFile=" + dir + "/run/slurmctld.pid",
		"SlurmdPidFile=" + dir + "/run/slurmd.%n.pid",
		"SlurmctldLogFile=" + dir + "/log/slurmctld.log",
		"SlurmdLogFile=" + dir + "/log/slurmd.%n.log",
		"SlurmctldDebug=info",
		"SlurmdDebug=info",
		"MailProg=/bin/true",
		"ProctrackType=proctrack/linuxproc",
		"TaskPlugin=task/none",
		"JobAcctGatherType=jobacct_gather/none",
		"SwitchType=switch/none",
		"MpiDefault=none",
		"SlurmdParameters=config_overrides", // nodes may claim more than this machine has
		"TreeWidth=65533",                   // a dead slurmd must not sit between slurmctld and another
		"ReturnToService=2",
		"SelectType=select/cons_tres",
		"SelectTypeParameters=CR_Core_Memory",
		"DefMemPerCPU=1024",
		"SchedulerType=sched/backfill",
		"SchedulerParameters=batch_sched_delay=0,sched_interval=5,sched_min_interval=100000,bf_interval=1",
		"PriorityType=priority/multifactor",
		"PriorityCalcPeriod=1",
		"PriorityMaxAge=1-0",
		"PriorityWeightAge=1000",
		"PriorityWeightFairshare=10000",
		"PriorityWeightQOS=5000",
		"PriorityWeightPartition=1000",
		"PriorityWeightJobSize=1000",
		"JobRequeue=1",
		"MinJobAge=300",
		"InactiveLimit=0",
		"KillWait=2",
		fmt.Sprintf("MaxJobCount=%d", o.MaxJobs),
		fmt.Sprintf("MaxArraySize=%d", o.MaxArrayTasks),
		"GresTypes=gpu",
	}
	if o.RequeueDelay > 0 {
		conf = replaceKeys(conf, []string{fmt.Sprintf("AuthInfo=socket=%s/run/munge.sock,cred_expire=%d", dir, o.RequeueDelay)})
	}
	params, addr := h.binding()
	conf = append(conf, params...)
	if o.Backup {
		conf = replaceKeys(conf, controllers(dir))
	} else {
		conf = append(conf, "SlurmctldHost=localhost("+addr+")")
	}
	conf = append(conf, accountingConf(dir, addr, p, o)...)
	conf = replaceKeys(conf, o.ExtraConf)
	conf = append(conf, nodesConf(p.Slurmd, o.Nodes)...)
	for _, part := range o.Partitions {
		conf = append(conf, "PartitionName="+part)
	}
	return strings.Join(conf, "\n") + "\n"
}

// accountingConf gives the lines for slurmdbd, and for preemption, which needs its QOS.
func accountingConf(dir, addr string, p ports, o Options) []string {
	if o.NoAccounting {
		return []string{"AccountingStorageType=accounting_storage/none", "PreemptType=preempt/none"}
	}
	tres := []string{"gres/gpu"}
	for _, t := range gpuTypes(o.Nodes) {
		tres = append(tres, "gres/gpu:"+t)
	}
	conf := []string{
		"AccountingStorageType=accounting_storage/slurmdbd",
		"AccountingStorageHost=" + addr,
		fmt.Sprintf("AccountingStoragePort=%d", p.Slurmdbd),
		"AccountingStoragePass=" + dir + "/run/munge.sock", // what clients of slurmdbd read instead of AuthInfo
		"AccountingStorageTRES=" + strings.Join(tres, ","),
		"AccountingStoreFlags=job_comment",
		"AccountingStorageEnforce=associations,limits,qos",
	}
	if strings.EqualFold(o.PreemptMode, "OFF") {
		return append(conf, "PreemptType=preempt/none", "PreemptMode=OFF")
	}
	return append(conf, "PreemptType=preempt/qos", "PreemptMode="+o.PreemptMode)
}

// nodesConf gives a line for each group of equal nodes; their slurmds listen on the ports from port on.
func nodesConf(port int, nodes []NodeSpec) (conf []string) {
	for _, n := range nodes {
		line := fmt.Sprintf("NodeName=%s NodeAddr=%s Port=%s CPUs=%d RealMemory=%d",
			numbered(n.Prefix, 1, n.Count), loopback, numbered("", port, n.Count), n.CPUs, n.MemoryMB)
		if n.CPUs%2 == 0 && !strings.Contains(n.Extra, "Sockets=") {
			line += fmt.Sprintf(" Sockets=2 CoresPerSocket=%d ThreadsPerCore=1", n.CPUs/2)
		}
		features := n.Features
		if n.Gres != "" {
			line += " Gres=" + n.Gres
		} else if n.GPUs > 0 && n.GPUType != "" {
			features = append([]string{n.GPUType}, features...)
			line += fmt.Sprintf(" Gres=gpu:%s:%d", n.GPUType, n.GPUs)
			if n.Second != "" {
				line += fmt.Sprintf(",gpu:%s:%d", n.Second, n.GPUs)
			}
		} else if n.GPUs > 0 {
			line += fmt.Sprintf(" Gres=gpu:%d", n.GPUs)
		}
		if len(features) > 0 {
			line += " Feature=" + strings.Join(features, ",")
		}
		if n.Extra != "" {
			line += " " + n.Extra
		}
		conf = append(conf, line)
		port += n.Count
	}
	return conf
}

// replaceKeys appends extra to conf and drops the lines of conf whose key
// extra sets, because Slurm's clients complain about a key that comes twice.
func replaceKeys(conf, extra []string) []string {
	set := map[string]bool{}
	for _, line := range extra {
		key, _, _ := strings.Cut(line, "=")
		set[strings.ToLower(strings.TrimSpace(key))] = true
	}
	conf = slices.DeleteFunc(conf, func(line string) bool {
		key, _, _ := strings.Cut(line, "=")
		return set[strings.ToLower(key)]
	})
	return append(conf, extra...)
}

// numbered gives "a1" or "a[1-3]".
func numbered(prefix string, first, count int) string {
	if count == 1 {
		return fmt.Sprintf("%s%d", prefix, first)
	}
	return fmt.Sprintf("%s[%d-%d]", prefix, first, first+count-1)
}

func gresConf(dir string, o Options) string {
	if o.GresConf != "" {
		return strings.ReplaceAll(o.GresConf, "/dev/gpu", dir+"/dev/gpu")
	}
	var b strings.Builder
	for _, n := range o.Nodes {
		if n.GPUs == 0 {
			continue
		}
		fmt.Fprintf(&b, "NodeName=%s Name=gpu", numbered(n.Prefix, 1, n.Count))
		if n.GPUType != "" {
			fmt.Fprintf(&b, " Type=%s", n.GPUType)
		}
		fmt.Fprintf(&b, " File=%s\n", numbered(dir+"/dev/gpu", 0, n.GPUs))
		if n.Second != "" {
			fmt.Fprintf(&b, "NodeName=%s Name=gpu Type=%s File=%s\n", numbered(n.Prefix, 1, n.Count), n.Second, numbered(dir+"/dev/gpu", n.GPUs, n.GPUs))
		}
	}
	return b.String()
}

func slurmdbdConf(dir, me string, h host, p ports) string {
	conf := []string{
		"AuthType=auth/munge",
		"AuthInfo=socket=" + dir + "/run/munge.sock",
		fmt.Sprintf("DbdPort=%d", p.Slurmdbd),
		"SlurmUser=" + me,
		"LogFile=" + dir + "/log/slurmdbd.log",
		"PidFile=" + dir + "/run/slurmdbd.pid",
		"DebugLevel=info",
		"StorageType=accounting_storage/mysql",
		"StorageHost=localhost",
		"StorageUser=" + me,
		"StoragePass=none", // the database asks nobody: its socket lies in a folder of mode 0700
		"StorageLoc=" + accountingDatabase,
	}
	if h.Addr != "" {
		_, addr := h.binding()
		conf = append(conf, "DbdHost=localhost", "DbdAddr="+addr, "CommunicationParameters=NoInAddrAny")
	} else {
		conf = append(conf, "DbdHost=localhost")
	}
	return strings.Join(conf, "\n") + "\n"
}

// sacctmgrCommands sets up QOS, accounts and users: one session and few
// commands, because each message waits for a delayed TCP acknowledgement.
func sacctmgrCommands(me string, o Options) string {
	users := []string{me}
	for _, name := range []string{OperatorUser, PlainUser, OtherUser} {
		if _, err := user.Lookup(name); err == nil && name != me {
			users = append(users, name)
		}
	}
	modifyTE := "modify qos te set priority=100"
	if !strings.EqualFold(o.PreemptMode, "OFF") {
		modifyTE += " preempt=be"
	}
	commands := []string{
		"add qos be,te set priority=10",
		modifyTE,
		"add cluster lab",
		fmt.Sprintf("add account %s,%s cluster=lab organization=lab qos=normal,te,be", Physics, Biology),
		fmt.Sprintf("add user %s account=%s,%s defaultaccount=%s", strings.Join(users, ","), Physics, Biology, Physics),
	}
	if slices.Contains(users[1:], OperatorUser) {
		commands = append(commands, "modify user "+OperatorUser+" set adminlevel=Operator")
	}
	return strings.Join(commands, "\n") + "\n"
}

// writeFolder lays out everything the daemons read.
func writeFolder(dir, me string, h host, p ports, o Options) error {
	for name, mode := range map[string]os.FileMode{
		"etc": 0o755, "run": 0o755, "run/host": 0o755, "log": 0o755, "dev": 0o755, "spool": 0o755,
		"state": 0o700, "db": 0o700, "secret": 0o700, "work": 0o1777,
	} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
		perm := mode & 0o777
		if mode&0o1000 != 0 {
			perm |= os.ModeSticky
		}
		if err := os.Chmod(filepath.Join(dir, name), perm); err != nil {
			return err
		}
	}
	files := map[string]string{
		"etc/slurm.conf": slurmConf(dir, me, h, p, o),
		"etc/hosts":      hostsFile(),
		"etc/su":         su,
		"etc/gres.conf":  gresConf(dir, o),
	}
	if AtLeast(23, 11) { // slurmd wants a cgroup file system otherwise; older ones do not know the line
		files["etc/cgroup.conf"] = "CgroupPlugin=disabled\n"
	}
	if !o.NoAccounting {
		files["etc/slurmdbd.conf"] = slurmdbdConf(dir, me, h, p)
		files["etc/sacctmgr"] = sacctmgrCommands(me, o)
		files["etc/sacctmgr.site"] = strings.Join(o.Sacctmgr, "\n") + "\n"
	}
	for name, content := range o.ExtraFiles {
		files["etc/"+name] = content
	}
	most := 0
	if o.GresConf != "" {
		most = 16
	}
	for _, n := range o.Nodes {
		most = max(most, 2*n.GPUs) // with those of a second type
	}
	for i := range most {
		files[fmt.Sprintf("dev/gpu%d", i)] = ""
	}
	for _, n := range nodeNames(o.Nodes) {
		if err := os.MkdirAll(filepath.Join(dir, "spool", n), 0o755); err != nil {
			return err
		}
	}
	for name, content := range files {
		mode := os.FileMode(0o644)
		if name == "etc/slurmdbd.conf" {
			mode = 0o600 // slurmdbd refuses it otherwise
		} else if name == "etc/su" {
			mode = 0o755
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			return err
		}
	}
	return nil
}
