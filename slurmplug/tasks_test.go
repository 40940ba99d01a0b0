package slurmplug

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTasksRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.SliceOfNDistinct(rapid.Int32Range(0, 300), 1, 60, rapid.ID[int32]).Draw(t, "tasks")
		slices.Sort(tasks)
		list := CompactTasks(tasks)
		got, err := ExpandTasks(list)
		if err != nil || !slices.Equal(got, tasks) {
			t.Fatalf("ExpandTasks(%q) = %v, %v; want %v", list, got, err, tasks)
		}
		if n, err := CountTasks(list + "%4"); err != nil || n != len(tasks) {
			t.Fatalf("CountTasks(%q) = %d, %v; want %d", list, n, err, len(tasks))
		}
		one := rapid.Int32Range(0, 300).Draw(t, "one")
		if has, err := HasTask(list, one); err != nil || has != slices.Contains(tasks, one) {
			t.Fatalf("HasTask(%q, %d) = %v, %v", list, one, has, err)
		}
		n := rapid.IntRange(0, 70).Draw(t, "n")
		first, err := FirstTasks("["+list+"]", n)
		if want := CompactTasks(tasks[:min(n, len(tasks))]); err != nil || first != want {
			t.Fatalf("FirstTasks(%q, %d) = %q, %v; want %q", list, n, first, err, want)
		}
	})
}

func TestTasksWithSteps(t *testing.T) {
	got, err := ExpandTasks("1-9:4,20%3")
	if err != nil || !slices.Equal(got, []int32{1, 5, 9, 20}) {
		t.Fatal(got, err)
	}
	for task, want := range map[int32]bool{0: false, 1: true, 4: false, 9: true, 13: false, 20: true} {
		if has, err := HasTask("1-9:4,20%3", task); err != nil || has != want {
			t.Errorf("%d: %v, %v", task, has, err)
		}
	}
}

func TestTasksRefused(t *testing.T) {
	for _, list := range []string{"", "a", "3-1", "1-", "-3", "1-5:0", "5:2", "1,,2", "0-2147483647", "99999999999", "1-3...", "1 2", "1-3]", "[1-3", "1%", "1%x", "[1]%2"} {
		if got, err := ExpandTasks(list); err == nil {
			t.Errorf("ExpandTasks(%q) = %d tasks, want an error", list, len(got))
		}
	}
}

func FuzzTasks(f *testing.F) {
	for _, s := range []string{"1-9%3", "1,3,5-20:5", "[0-99]", "0-4000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		n, err := CountTasks(list)
		if err != nil || n > 10000 {
			return
		}
		tasks, err := ExpandTasks(list)
		if err != nil || len(tasks) != n {
			t.Fatalf("%q: CountTasks %d, ExpandTasks %d, %v", list, n, len(tasks), err)
		}
	})
}
