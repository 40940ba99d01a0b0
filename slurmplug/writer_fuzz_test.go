package slurmplug

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// sentence is what scontrol makes of one line: it splits at blanks, and a key
// is what stands before the first "=".
type sentence struct{ targets, lever, value string }

func understand(text string) (sentence, error) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || strings.IndexByte("\"'`\\!", c) >= 0 {
			return sentence{}, fmt.Errorf("%q holds %q, which readline or scontrol reads otherwise", text, c)
		}
	}
	words := strings.Split(text, " ")
	if len(words) != 3 || words[0] != "update" {
		return sentence{}, fmt.Errorf("%q is no update of one field", text)
	}
	targets, ok := strings.CutPrefix(words[1], "JobId=")
	lever, value, ok2 := strings.Cut(words[2], "=")
	if !ok || !ok2 || lever == "" || strings.Trim(targets, "0123456789_,-[]+:") != "" {
		return sentence{}, fmt.Errorf("%q is no update of one field", text)
	}
	return sentence{targets, lever, value}, nil
}

// Whatever an update holds, scontrol is told of it as it is or not at all: no
// line, no field and no job more.
func FuzzUpdates(f *testing.F) {
	f.Add(uint32(17), int32(-1), "", uint32(0), 0, "Features", "a100|v100", "SiteFactor", "5", true)
	f.Add(uint32(17), int32(-1), "1-9:2,12", uint32(0), 0, "Comment", "x\nupdate JobId=1 Priority=4294967293", "Nice", "5 Priority=0", true)
	f.Add(uint32(17), int32(-1), "1-3] JobId=8", uint32(0), 0, "Comment", "!!", "Features=x JobId", "8", false)
	f.Add(uint32(17), int32(-1), "", uint32(17), 1, "Partition", "\x12a\x0f", "UserID", "0", true)
	f.Add(uint32(17), int32(4), "", uint32(0), 0, "Gres", "gpu:1\x00", "release", "", true)
	f.Add(uint32(17), int32(-1), "", uint32(0), 0, "Features", "caf\u00e9", "Priority", "0", false)
	f.Fuzz(func(t *testing.T, id uint32, task int32, tasks string, het uint32, offset int, lever, value, lever2, value2 string, more bool) {
		if n, err := CountTasks(tasks); err == nil && n > 1000 {
			t.Skip("a large array takes its time")
		}
		victim := Update{Job: JobID{ID: id, Task: task}, Tasks: tasks, HetID: het, HetOffset: offset, Lever: Lever(lever), Value: Lever(lever).Value(value)}
		second := victim
		second.Lever, second.Value = Lever(lever2), Lever(lever2).Value(value2)
		updates := []Update{victim, second}
		if more { // two lines of one lever go by standard input
			updates = append(updates, Update{Job: Plain(1), Lever: Lever(lever), Value: Lever(lever).Value("1")}, Update{Job: Plain(2), Lever: Lever(lever), Value: Lever(lever).Value("2")})
		}
		said, want := map[sentence]bool{}, map[sentence]bool{}
		results := make([]Result, len(updates))
		sessions := planSessions(updates, results, maxSession)
		for i := range sessions {
			cmd := sessions[i].command()
			lines := []string{strings.Join(cmd.Args, " ")}
			if cmd.Stdin != nil {
				text, whole := strings.CutSuffix(string(cmd.Stdin), "\n")
				if !whole || len(cmd.Args) > 0 {
					t.Fatalf("%q and %q", cmd.Args, cmd.Stdin)
				}
				lines = strings.Split(text, "\n")
			}
			for _, line := range lines {
				got, err := understand(line)
				if err != nil {
					t.Fatal(err)
				}
				got.each(said)
			}
		}
		for i, r := range results {
			u := updates[i]
			again := slices.ContainsFunc(updates[:i], func(o Update) bool {
				return o.Validate() == nil && o.Target() == u.Target() && o.Lever == u.Lever
			})
			if refused := u.Validate() != nil || again; refused != (r.Status == Refused) {
				t.Fatalf("%+v: %s %q", u, r.Status, r.Message)
			} else if !refused {
				sentence{u.Target(), string(u.Lever), u.Value.String()}.each(want)
			}
		}
		if !maps.Equal(said, want) {
			t.Fatalf("scontrol is told\n%+v\nand should be\n%+v", said, want)
		}
	})
}

// each puts a sentence about each single job or task into all.
func (s sentence) each(all map[sentence]bool) {
	for rest, more := s.targets, true; more; {
		var item string
		item, rest, more = cutList(rest)
		job, list, isArray := strings.Cut(item, "_")
		if !isArray {
			all[sentence{item, s.lever, s.value}] = true
			continue
		}
		tasks, err := ExpandTasks(list)
		if err != nil {
			all[s] = true // differs from anything that is wanted
			return
		}
		for _, task := range tasks {
			all[sentence{fmt.Sprint(job, "_", task), s.lever, s.value}] = true
		}
	}
}
