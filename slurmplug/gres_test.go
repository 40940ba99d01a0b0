package slurmplug

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseGres(t *testing.T) {
	for list, want := range map[string][]Gres{
		"":                               nil,
		"(null)":                         nil,
		"N/A":                            nil,
		"gpu":                            {{Name: "gpu", Count: 1}},
		"gpu:8":                          {{Name: "gpu", Count: 8}},
		"gpu:a100":                       {{Name: "gpu", Type: "a100", Count: 1}},
		"gpu:a100:4":                     {{Name: "gpu", Type: "a100", Count: 4}},
		"gpu:a100:4(S:0-1)":              {{Name: "gpu", Type: "a100", Count: 4}},
		"gpu:a100:0(IDX:N/A)":            {{Name: "gpu", Type: "a100"}},
		"gpu:a100:3(IDX:0,4-5),gpu:t4:2": {{Name: "gpu", Type: "a100", Count: 3}, {Name: "gpu", Type: "t4", Count: 2}},
		"gpu:a100:4(S:0-1)(IDX:1)":       {{Name: "gpu", Type: "a100", Count: 4}},
		"gres:gpu:a100:2":                {{Name: "gpu", Type: "a100", Count: 2}},
		"gres/gpu:a100:2":                {{Name: "gpu", Type: "a100", Count: 2}},
		"gres/gpu:a100=2":                {{Name: "gpu", Type: "a100", Count: 2}},
		"gres:gpu:1,gres:mps:100":        {{Name: "gpu", Count: 1}, {Name: "mps", Count: 100}},
		"gpu:1g.5gb:2":                   {{Name: "gpu", Type: "1g.5gb", Count: 2}},
		"gpu:1g.5gb":                     {{Name: "gpu", Type: "1g.5gb", Count: 1}},
		"gpu:2080ti:no_consume:4":        {{Name: "gpu", Type: "2080ti", Count: 4}},
		"mps:2K":                         {{Name: "mps", Count: 2048}},
		"shard:a100:8(2/4,0/4)":          {{Name: "shard", Type: "a100", Count: 8, On: 1}},
		"gpu:tesla:2(CNT:2)":             {{Name: "gpu", Type: "tesla", Count: 2}},
		"gpu:(null):4(IDX:0-3)":          {{Name: "gpu", Count: 4}}, // 22.05, untyped with Cores=
		"gpu:(null):0(IDX:N/A)":          {{Name: "gpu"}},
		"gpu:(null)":                     {{Name: "gpu", Count: 1}},
		"gpu:a100:2(IDX:0,2-3),gpu:(null):1(IDX:4)": {{Name: "gpu", Type: "a100", Count: 2}, {Name: "gpu", Count: 1}},
		"gpu:h100(CNT:4)":                               {{Name: "gpu", Type: "h100", Count: 4}},
		"gpu(CNT:4)":                                    {{Name: "gpu", Count: 4}},
		"gpu:2080(CNT:4)":                               {{Name: "gpu", Type: "2080", Count: 4}},
		"gpu:1g.5gb(CNT:7)":                             {{Name: "gpu", Type: "1g.5gb", Count: 7}},
		"gpu:h100(CNT:0)":                               {{Name: "gpu", Type: "h100"}},
		"gpu:2(CNT:2)":                                  {{Name: "gpu", Count: 2}},
		"gpu:a100_3g.39gb:7(S:0-1)":                     {{Name: "gpu", Type: "a100_3g.39gb", Count: 7}},
		"gpu:1g.10gb+me:1":                              {{Name: "gpu", Type: "1g.10gb+me", Count: 1}},
		"gpu:amd_instinct_mi250x/mi250:8(S:0-1)":        {{Name: "gpu", Type: "amd_instinct_mi250x/mi250", Count: 8}}, // AutoDetect=rsmi
		"gpu:no_consume:4":                              {{Name: "gpu", Count: 4}},
		"bandwidth:lustre:no_consume:4G":                {{Name: "bandwidth", Type: "lustre", Count: 4 << 30}},
		"shard:16(-/8,3/8)":                             {{Name: "shard", Count: 16, On: 1}}, // "-": the GPU is in use as a whole
		"shard:(null):0(IDX:N/A),mps:(null):0(IDX:N/A)": {{Name: "shard"}, {Name: "mps"}},
		"gpu:a100:4(IDX:0,2,4-5)(S:0)(Links:-1,0,4)":    {{Name: "gpu", Type: "a100", Count: 4}},
		"gpu:4,tmpdisk:100G,nvme:1.50T":                 {{Name: "gpu", Count: 4}, {Name: "tmpdisk", Count: 100 << 30}, {Name: "nvme", Count: 3 << 39}},
		"gpu:tesla:2,gpu:kepler:2,licence:1":            {{Name: "gpu", Type: "tesla", Count: 2}, {Name: "gpu", Type: "kepler", Count: 2}, {Name: "licence", Count: 1}},
	} {
		got, err := ParseGres(list)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("ParseGres(%q): %v %s", list, err, diff)
		}
	}
	for _, list := range []string{
		",", "gpu,", ":", "gpu:", "gpu:a100:", "gpu:a b:1", "gpu:a\x1fb:1", "gpu:a100:2(IDX:0", "gpu:1)", "gpu:1(IDX:0)x", "gpu:4(", "gres", "gres:", "gpu:4(S:0)(",
		"gpu:a100:x:y:1", "gpu:a100:2Q", "gpu:a100:-1", "gpu:99999999999999999999", "gpu:1(IDX:\x1b[2J)", "gpu::1",
		"gpu:h100(CNT:x)", "gpu:h100:(CNT:4)", "(null):4",
	} {
		if got, err := ParseGres(list); err == nil {
			t.Errorf("ParseGres(%q) = %v, want an error", list, got)
		}
	}
}

func FuzzGres(f *testing.F) {
	for _, s := range []string{"gpu:a100:4(S:0-1)", "gres:gpu:a100:1,gres:gpu:t4:1", "gpu:a100:1(IDX:0,4-5),gpu:8", "gpu:a\x1fb:1", "gpu:(null):4(IDX:0-3)", "gpu:2080(CNT:4)", "shard:16(-/8,3/8)", "gpu:a100:no_consume:4K(S:0)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		all, err := ParseGres(list)
		if err != nil {
			return
		}
		for _, g := range all {
			g.On = 0 // which String leaves out
			back, err := ParseGres(g.String())
			if err != nil || len(back) != 1 || back[0] != g || g.Count < 0 {
				t.Fatalf("%q: %+v reads back as %+v, %v", list, g, back, err)
			}
		}
	})
}

func TestParseTRES(t *testing.T) {
	for list, want := range map[string]TRES{
		"":       nil,
		"(null)": nil,
		"cpu=8,mem=62.50G,billing=8,gres/gpu=4,gres/gpu:a100=4": {{"cpu", 8}, {"mem", 64000}, {"billing", 8}, {"gres/gpu", 4}, {"gres/gpu:a100", 4}},
		"billing=1,cpu=2K,mem=3072":                             {{"billing", 1}, {"cpu", 2048}, {"mem", 3072}},
		"mem=6T":                                                {{"mem", 6 << 20}},
		"mem=1K":                                                {{"mem", 1}},
		"cpu=4,energy=18446744073709551614,gres/gpu:1g.5gb=2": {{"cpu", 4}, {"gres/gpu:1g.5gb", 2}},
		"license/matlab@host=2":                               {{"license/matlab@host", 2}},
	} {
		got, err := ParseTRES(list)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("ParseTRES(%q): %v %s", list, err, diff)
		}
	}
	for _, list := range []string{"cpu", "cpu=", "=1", "cpu=1,cpu=2", "cpu=-1", "cpu=1e9", "mem=1X", "cpu=1,", "a b=1", "cpu=nan", "mem=99999999999E"} {
		if got, err := ParseTRES(list); err == nil {
			t.Errorf("ParseTRES(%q) = %v, want an error", list, got)
		}
	}
}

// tresText writes the list as ParseTRES reads it, memory in MB.
func tresText(all TRES) string {
	words := make([]string, len(all))
	for i, c := range all {
		if words[i] = fmt.Sprintf("%s=%d", c.Name, c.Count); c.Name == "mem" {
			words[i] += "M"
		}
	}
	return strings.Join(words, ",")
}

func TestTRESRoundTrip(t *testing.T) {
	names := []string{"cpu", "mem", "node", "billing", "gres/gpu", "gres/gpu:a100", "fs/disk"}
	rapid.Check(t, func(t *rapid.T) {
		var want TRES
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID[string]).Draw(t, "names") {
			want = append(want, TRESCount{name, rapid.Int64Range(0, 1<<40).Draw(t, name)})
		}
		got, err := ParseTRES(tresText(want))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v: %v, %v", want, got, err)
		}
	})
}

func TestTRESCountsDevicesOnce(t *testing.T) {
	for list, want := range map[string]struct {
		gpuType string
		count   int
		ok      bool
	}{
		"cpu=1":                                    {"", 0, false},
		"cpu=2,gres/gpu=4,gres/gpu:a100=4":         {"a100", 4, true},
		"cpu=2,gres/gpu=4":                         {"", 4, true},
		"gres/gpu:a100=4":                          {"a100", 4, true},
		"gres/gpu=4,gres/gpu:a100=2":               {"", 4, true}, // two more without a type
		"gres/gpu=3,gres/gpu:t4=1,gres/gpu:a100=2": {"a100,t4", 3, true},
		"gres/gpu=0":                               {"", 0, true},
	} {
		tres, err := ParseTRES(list)
		if err != nil {
			t.Fatal(err)
		}
		if gpuType, count, ok := tres.GPUs(); gpuType != want.gpuType || count != want.count || ok != want.ok {
			t.Errorf("%q: %q %d %v, want %+v", list, gpuType, count, ok, want)
		}
	}
}

func FuzzTRES(f *testing.F) {
	for _, s := range []string{"cpu=8,mem=62.50G,billing=8,gres/gpu=4,gres/gpu:a100=4", "mem=3G", "cpu=2K"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		tres, err := ParseTRES(list)
		if err != nil {
			return
		}
		back, err := ParseTRES(tresText(tres))
		if err != nil || !slices.Equal(back, tres) {
			t.Fatalf("%q reads back as %v, %v", list, back, err)
		}
		tres.GPUs()
	})
}

func TestParseMemory(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "100M": 100, "3G": 3072, "62.50G": 64000, "3072": 3072, "1T": 1 << 20, "512K": 1, "1.5M": 2} {
		if got, err := ParseMemory(s); got != want || err != nil {
			t.Errorf("ParseMemory(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "G", "-1", "1.2.3G", "1e3", "inf", "0x10", "1 G", ".5G", "9999999999999999999999"} {
		if got, err := ParseMemory(s); err == nil {
			t.Errorf("ParseMemory(%q) = %d, want an error", s, got)
		}
	}
}
