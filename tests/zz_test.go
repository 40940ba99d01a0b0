package tests
import ("testing";"time";"strings";"fmt")
func TestZZ(t *testing.T) {
	s := newOwnSite(t, "")
	show := func(what, id string) {
		out := s.slurm("scontrol", "show", "job", "-o", id)
		var keep []string
		for _, w := range strings.Fields(out) {
			k, _, _ := strings.Cut(w, "=")
			switch k { case "JobState","NumNodes","ReqNodeList","NodeList","TRES","TresPerNode","TresPerJob","Reason","NumCPUs","NumTasks","Restarts": keep = append(keep, w) }
		}
		fmt.Println(what, keep)
	}
	fmt.Println(s.slurm("sinfo", "-N", "-o", "%N %G %t"))
	for _, how := range []string{"--gres=gpu:2", "--gpus=2", "--gpus=8"} {
		id := s.submit("--requeue", how, "--begin=now+2", "--wrap", "sleep 100")
		show(how+" before", id)
		s.slurm("scontrol", "update", "JobId="+id, "ReqNodeList=a100-[1-2]")
		show("pinned", id)
		time.Sleep(8*time.Second)
		show("runs", id)
		s.slurm("scontrol", "requeue", id)
		time.Sleep(2*time.Second)
		show("requeued", id)
		s.slurm("scontrol", "update", "JobId="+id, "ReqNodeList=")
		show("unpinned", id)
		s.slurm("scontrol", "update", "JobId="+id, "StartTime=now+2")
		time.Sleep(8*time.Second)
		show("runs again", id)
		s.slurm("scancel", id)
		time.Sleep(2*time.Second)
	}
}
