package cluster

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/slurmplug"
)

// A JobMap does what a Go map does, wherever ids lie and in whatever order they come and go.
func TestJobMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m JobMap[int]
		model := map[JobID]int{}
		base := rapid.Uint32Range(0, 1<<26).Draw(t, "base")
		id := rapid.Custom(func(t *rapid.T) JobID {
			id := slurmplug.Plain(base + rapid.Uint32Range(0, 300).Draw(t, "above"))
			if rapid.IntRange(0, 9).Draw(t, "far") == 0 {
				id.ID = rapid.Uint32Range(0, 1<<20).Draw(t, "id")
			}
			if rapid.Bool().Draw(t, "task") {
				id.ID, id.Task = id.ID%3, rapid.Int32Range(0, 200).Draw(t, "number")
			}
			return id
		})
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k, v := id.Draw(t, "id"), rapid.Int().Draw(t, "value")
				m.Set(k, v)
				model[k] = v
			},
			"delete": func(t *rapid.T) {
				k := id.Draw(t, "id")
				m.Delete(k)
				delete(model, k)
			},
			"delete old ones": func(t *rapid.T) {
				below := id.Draw(t, "below")
				gone := func(k JobID, _ int) bool { return k.Compare(below) < 0 }
				m.DeleteFunc(gone)
				maps.DeleteFunc(model, gone)
			},
			"delete while they are told": func(t *rapid.T) {
				limit := rapid.IntRange(0, 20).Draw(t, "limit")
				for k := range m.All() {
					if limit--; limit < 0 {
						break
					}
					m.Delete(k)
					delete(model, k)
				}
			},
			"": func(t *rapid.T) {
				k := id.Draw(t, "id")
				want, there := model[k]
				if got, known := m.Find(k); got != want || known != there || m.Get(k) != want {
					t.Fatalf("%s: %d %t, want %d %t", k, got, known, want, there)
				}
				if all := maps.Collect(m.All()); m.Len() != len(model) || !maps.Equal(all, model) {
					t.Fatalf("%d: %v\nwant %v", m.Len(), all, model)
				}
			},
		})
	})
}

// Places of jobs that are gone do not add up as ids rise.
func TestJobMapKeepsNoOldPlaces(t *testing.T) {
	var m JobMap[bool]
	for id := range uint32(1_000_000) {
		m.Set(slurmplug.Plain(id), true)
		m.Set(JobID{ID: id / 100, Task: int32(id % 100)}, true)
		if id >= 1000 {
			m.Delete(slurmplug.Plain(id - 1000))
			m.Delete(JobID{ID: (id - 1000) / 100, Task: int32((id - 1000) % 100)})
		}
	}
	segments, places := 0, 0
	for _, in := range m.plain {
		if in != nil {
			segments, places = segments+1, places+len(in.at)
		}
	}
	if segments > 2 || places > 1024 || len(m.tasks) > 20 {
		t.Errorf("%d segments, %d places of pages, %d arrays for 2,000 jobs", segments, places, len(m.tasks))
	}
}

// Ids start over after some tens of millions: a map then holds jobs from both ends.
func TestJobMapAfterIdsBeganAnew(t *testing.T) {
	var m JobMap[bool]
	for id := range uint32(1000) {
		m.Set(slurmplug.Plain(67_043_000-id), true)
		m.Set(slurmplug.Plain(1+id), true)
	}
	places := len(m.plain)
	for _, in := range m.plain {
		if in != nil {
			places += len(in.at)
		}
	}
	if m.Len() != 2000 || places > 4096 {
		t.Errorf("%d places for %d jobs", places, m.Len())
	}
}
