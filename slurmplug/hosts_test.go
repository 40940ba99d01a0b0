package slurmplug

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestExpandHosts(t *testing.T) {
	for list, want := range map[string]string{
		"":                      "",
		"(null)":                "",
		"a1":                    "a1",
		"a[1-3,5],b":            "a1 a2 a3 a5 b",
		"n[08-11]":              "n08 n09 n10 n11",
		"n[001,2]":              "n001 n2",
		"n[9-10]":               "n9 n10",
		"rack[1-2]n[01-02]":     "rack1n01 rack1n02 rack2n01 rack2n02",
		"n[1-2]-ib[0,2].net":    "n1-ib0.net n1-ib2.net n2-ib0.net n2-ib2.net",
		"a[1-2],m1,u1,v[1-2]":   "a1 a2 m1 u1 v1 v2",
		"login":                 "login",
		"x[1-1]":                "x1",
		"[1-2]":                 "1 2",
		"a100-[1-2],v100-1":     "a100-1 a100-2 v100-1",
		"c[0-1][2-3],c[10]-eth": "c02 c03 c12 c13 c10-eth",
	} {
		got, err := ExpandHosts(list)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("ExpandHosts(%q) = %q, %v; want %q", list, got, err, want)
		}
	}
	for _, list := range []string{
		",", "a,", "a[", "a[]", "a[1", "a]", "a[2-1]", "a[1-2-3]", "a[x]", "a b", "a\x1b[31m", "a[1,,2]", "a[-1]", "a[1-]",
		"a[0-999999999]", "a[0-999][0-999]", strings.Repeat("a[0-99999],", 4) + "a", "a[99999999999999999999]", "a[[1-2]]",
	} {
		if got, err := ExpandHosts(list); err == nil {
			t.Errorf("ExpandHosts(%q) = %d hosts, want an error", list, len(got))
		}
	}
}

func TestCompactHosts(t *testing.T) {
	for want, hosts := range map[string]string{
		"":                  "",
		"a1":                "a1",
		"a[1-3,5],b":        "a1 a2 a3 b a5",
		"n[8-11]":           "n8 n9 n10 n11",
		"n[08-10]":          "n08 n09 n10",
		"n[8,08]":           "n08 n8",
		"n[98-100]":         "n98 n99 n100 n98",
		"x[1-2].net,login,": "x1.net x2.net login ",
		"a100-[1-2],v100-1": "a100-1 a100-2 v100-1",
	} {
		if got := CompactHosts(strings.Fields(hosts)); got != strings.TrimSuffix(want, ",") {
			t.Errorf("CompactHosts(%q) = %q, want %q", hosts, got, want)
		}
	}
}

func TestHostsRoundTrip(t *testing.T) {
	host := rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(0, 120).Draw(t, "n")
		return fmt.Sprintf(rapid.SampledFrom([]string{"n%d", "n%03d", "rack%d-gpu", "a100-%d", "login", "n1x%02d.net", "%d", "20261121123456%d"}).Draw(t, "form"), n)
	})
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.SliceOf(host).Draw(t, "hosts")
		for i := range hosts {
			hosts[i], _, _ = strings.Cut(hosts[i], "%!")
		}
		list := CompactHosts(hosts)
		got, err := ExpandHosts(list)
		slices.Sort(hosts)
		slices.Sort(got)
		if want := slices.Compact(hosts); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q expands to %q, %v; want %q", list, got, err, want)
		}
	})
}

func FuzzHosts(f *testing.F) {
	for _, s := range []string{"a100-[1-2],v100-1", "rack[1-2]n[01-03,7],login", "n[08-11]", "(null)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := ExpandHosts(list)
		if err != nil || len(hosts) > 10000 {
			return
		}
		back, err := ExpandHosts(CompactHosts(hosts))
		slices.Sort(hosts)
		slices.Sort(back)
		if err != nil || !slices.Equal(back, slices.Compact(hosts)) {
			t.Fatalf("%q: %q compacts to %q, %v", list, hosts, CompactHosts(hosts), err)
		}
	})
}
