package slurmplug

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecordedAccounts(t *testing.T) { eachVersion(t, testRecordedAccounts) }

func testRecordedAccounts(t *testing.T, version string) {
	got, err := parseAccounts(recordingOf(t, version, "assoc.out"), new(table))
	want := []Account{
		{Name: "root", Share: 1, Users: 1}, {Name: "biology", Parent: "root", Share: 20, Users: 4}, {Name: "shy", Parent: "biology", UseParent: true},
		{Name: "physics", Parent: "root", Share: 1, Users: 4}, {Name: "language", Parent: "physics", Share: 1}, {Name: "vision", Parent: "physics", Share: 3, Users: 1},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestAccountsThatCannotBeTrusted(t *testing.T) {
	for out, want := range map[string]string{
		"root||||1\nroot||||1\n": "comes twice", "root|||1\n": "4 fields", "|x|||1\n": "not empty", "root||||-1\n": "Fairshare", "a|b|c||\n": "",
	} {
		var left table
		if _, err := parseAccounts("a||||1\n"+out, &left); err != nil || (want == "") != (len(left.odd) == 0) || want != "" && !strings.Contains(left.odd[0].Why, want) {
			t.Errorf("%q: %v, left out %+v, want %q", out, err, left.odd, want)
		}
	}
	if all, err := parseAccounts("a||||-1\nb||||2\n", new(table)); err != nil || !slices.Equal(all, []Account{{Name: "a", Share: 1}, {Name: "b", Share: 2}}) {
		t.Errorf("%+v, %v", all, err) // Slurm's default
	}
	if all, err := parseAccounts("root|||1\n", new(table)); all != nil || !errors.Is(err, ErrDoubtful) {
		t.Errorf("%+v, %v", all, err)
	}
}

// Whatever it is, it gives accounts with their names once each, or an error.
func FuzzAccounts(f *testing.F) {
	eachRecording(f, "assoc.out", func(out string) { f.Add(out) })
	f.Add("root||||1\nx|root|||parent\n")
	f.Fuzz(func(t *testing.T, out string) {
		all, err := parseAccounts(out, new(table))
		seen := map[string]bool{}
		for _, a := range all {
			if err != nil || a.Name == "" || seen[a.Name] || a.Share < 0 || a.UseParent && a.Share != 0 || !strings.Contains("\n"+out, "\n"+a.Name+"|"+a.Parent+"||") {
				t.Fatalf("%+v, %v", a, err)
			}
			seen[a.Name] = true
		}
	})
}

// Numbers of jobs stand among the TRES of the same scope; what has no limit is left out, but accounts, which are parents of others.
func TestLimitsOfJobs(t *testing.T) {
	jobs := func(n int64) TRES { return TRES{{Jobs, n}} }
	qos, err := parseQOSLimits("many|gres/gpu=1|gres/gpu=8|gres/gpu=3||cpu=9|1-00:00:00|OverPartQOS|2|4|5\nplain||||||||||\n", new(table))
	want := map[string]QOSLimits{"many": {
		Node: TRES{{"gres/gpu", 1}}, Job: TRES{{"gres/gpu", 8}}, User: append(TRES{{"gres/gpu", 3}}, jobs(2)...), Account: jobs(4), All: append(TRES{{"cpu", 9}}, jobs(5)...),
		MaxTime: 24 * time.Hour, Flags: []string{"OverPartQOS"},
	}}
	if diff := cmp.Diff(want, qos); err != nil || diff != "" {
		t.Error(err, diff)
	}
	all, err := parseAssociations("root|||||||\nphysics|||root|gres/gpu=6|||\nphysics|ann|big||||gres/gpu=2|3\nphysics|bob||||||\n", new(table))
	if diff := cmp.Diff([]Association{{Account: "root"}, {Account: "physics", Parent: "root", All: TRES{{"gres/gpu", 6}}}, {Account: "physics", User: "ann", Partition: "big", Job: append(TRES{{"gres/gpu", 2}}, jobs(3)...)}}, all); err != nil || diff != "" {
		t.Error(err, diff)
	}
	left := table{}
	if _, err := parseAssociations("root|||||||\nphysics|||root|gres/gpu=6|x||\n", &left); err != nil || len(left.odd) != 1 {
		t.Error(err, left.odd)
	}
}
