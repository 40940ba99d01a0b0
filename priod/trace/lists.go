package trace

import (
	"slices"
	"strings"

	"slurmprio/slurmplug"
	"slurmprio/slurmplug/sbatch"
)

// Scripted are the jobs with GPUs whose list of partitions stands in their batch script, if anywhere: the commands by which
// they were submitted, by raw id, name none. Tasks of an array have one script.
func Scripted(runs []slurmplug.Run, lines map[uint32]string) (jobs []slurmplug.JobID) {
	seen := map[uint32]bool{}
	for i := range runs {
		r := &runs[i]
		if _, script := listIn(lines[r.RawID]); script && !seen[r.ID.ID] && strings.Contains(r.ReqTRES+r.AllocTRES, "gres/gpu") {
			seen[r.ID.ID] = true
			jobs = append(jobs, r.ID)
		}
	}
	return jobs
}

// ListsIn are the lists of partitions that #SBATCH lines name, one for each component of a heterogeneous job.
func ListsIn(script []byte) (lists []string) {
	components, _ := sbatch.Directives(script, 0) // up to what sbatch would refuse
	for _, words := range components {
		texts := make([]string, len(words))
		for i, w := range words {
			texts[i] = w.Text
		}
		list, _ := partitionOption(texts)
		lists = append(lists, list)
	}
	return lists
}

// listOf is the list of partitions that a job named, where the one in which it ran is among them, else that one. It is not
// known where neither the command nor a script tells.
func (o *Options) listOf(r *slurmplug.Run) (list string, known bool) {
	line, script := listIn(o.Lines[r.RawID])
	lists, read := o.Scripts[r.ID.ID]
	for _, list := range append([]string{line}, lists...) {
		if slices.Contains(strings.Split(list, ","), r.Partition) {
			return list, true
		}
	}
	return r.Partition, read || !script
}

// listIn is the list of partitions that a command names, and whether a script may name one.
func listIn(line string) (list string, script bool) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", true
	}
	list, wrapped := partitionOption(words[1:])
	name := words[0][strings.LastIndexByte(words[0], '/')+1:]
	return list, list == "" && !wrapped && name != "srun" && name != "salloc"
}

// partitionOption is the last --partition of words up to what is no option, and whether --wrap stands for a script.
func partitionOption(words []string) (list string, wrapped bool) {
	found, _, _, _ := sbatch.AnyRelease().Getopt(words)
	for _, f := range found {
		switch f.Option.Name {
		case "partition":
			list = f.Value
		case "wrap":
			wrapped = true
		}
	}
	return list, wrapped
}
