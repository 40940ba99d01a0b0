package giveback

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/slurmplug"
)

func TestKeep(t *testing.T) {
	for peak, want := range map[int64]int64{0: 1024, 300: 1324, 4096: 5120, 8000: 10000} {
		if got := Keep(peak); got != want {
			t.Errorf("%d MB used: %d are kept, want %d", peak, got, want)
		}
	}
}

// node has a share of 4 CPUs and 10000 MB for each GPU.
func node(freeGPUs, freeCPUs int, freeMB int64) Node {
	return Node{GPUs: 4, FreeGPUs: freeGPUs, CPUs: 16, FreeCPUs: freeCPUs, MemMB: 40000, FreeMemMB: freeMB}
}

func holds(id uint32, idle int64) Job {
	return Job{ID: slurmplug.Plain(id), MemMB: 2000 + idle, Keep: 2000}
}

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		node Node
		jobs []Job
		want []uint32
	}{
		"one frees a GPU":                        {node(3, 14, 5000), []Job{holds(1, 5000)}, []uint32{1}},
		"too little":                             {node(3, 14, 5000), []Job{holds(1, 4999)}, nil},
		"two together":                           {node(3, 14, 5000), []Job{holds(1, 3000), holds(2, 4000)}, []uint32{2, 1}},
		"the fewest":                             {node(1, 14, 5000), []Job{holds(1, 1500), holds(2, 6000), holds(3, 5000)}, []uint32{2}},
		"no more than help":                      {node(3, 14, 5000), []Job{holds(1, 6000), holds(2, 5000)}, []uint32{1}},
		"all GPUs":                               {node(2, 14, 5000), []Job{holds(1, 6000), holds(2, 9000)}, []uint32{2, 1}},
		"none lacks":                             {node(3, 14, 30000), []Job{holds(1, 30000)}, nil},
		"no free GPU":                            {node(0, 14, 0), []Job{holds(1, 30000)}, nil},
		"they lack CPUs, too":                    {node(3, 3, 5000), []Job{holds(1, 30000)}, nil},
		"as many as have CPUs":                   {node(3, 5, 5000), []Job{holds(1, 5000), holds(2, 10000)}, []uint32{2}},
		"not worth a write, whatever that is of": {node(3, 14, 9500), []Job{holds(1, 1023)}, nil},
		"worth one":                              {node(3, 14, 9500), []Job{holds(1, 1024)}, []uint32{1}},
		"used more than it holds, as Slurm counts": {node(3, 14, 5000), []Job{{ID: slurmplug.Plain(1), MemMB: 9000, Keep: 12000}}, nil},
	} {
		var got []uint32
		for _, j := range Choose(c.node, c.jobs) {
			got = append(got, j.ID.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Each that gives back frees something worth it and keeps what it needs; together they
// free a GPU that lacked memory, as many GPUs as all could, and none of them is needless.
func TestChooseHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Node{GPUs: rapid.IntRange(1, 8).Draw(t, "gpus"), CPUs: rapid.IntRange(1, 64).Draw(t, "cpus"), MemMB: rapid.Int64Range(1, 200_000).Draw(t, "mem")}
		n.FreeGPUs = rapid.IntRange(0, n.GPUs).Draw(t, "free gpus")
		n.FreeCPUs = rapid.IntRange(0, n.CPUs).Draw(t, "free cpus")
		n.FreeMemMB = rapid.Int64Range(0, n.MemMB).Draw(t, "free mem")
		served := func(jobs []Job) int {
			m := n
			for _, j := range jobs {
				m.FreeMemMB += max(j.MemMB-j.Keep, 0)
			}
			return m.FreeGPUs - max(m.Lacking())
		}
		var jobs, worth []Job
		for i := range rapid.IntRange(0, 6).Draw(t, "jobs") {
			j := Job{ID: slurmplug.Plain(uint32(i + 1)), MemMB: rapid.Int64Range(0, 100_000).Draw(t, "holds"), Keep: Keep(rapid.Int64Range(1, 100_000).Draw(t, "peak"))}
			if jobs = append(jobs, j); j.MemMB-j.Keep >= Margin {
				worth = append(worth, j)
			}
		}
		chosen := Choose(n, jobs)
		for i, j := range chosen {
			if j.MemMB-j.Keep < Margin || !slices.Contains(jobs, j) {
				t.Fatalf("%+v gives back", j)
			}
			if without := slices.Delete(slices.Clone(chosen), i, i+1); i == len(chosen)-1 && served(without) == served(chosen) {
				t.Fatalf("%+v gives back needlessly", j)
			}
		}
		if len(chosen) > 0 && served(chosen) <= served(nil) {
			t.Fatalf("%+v frees no GPU", chosen)
		}
		if served(chosen) != served(worth) {
			t.Fatalf("%d GPUs get their share by %+v, %d by all", served(chosen), chosen, served(worth))
		}
	})
}
