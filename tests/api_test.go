package tests

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// What the daemon answers under /api/v1 about a real Slurm is as its own description says; the schedule knows the running jobs, the
// waiting ones and Slurm's reservations, the map the job of each GPU.
func TestAPI(t *testing.T) {
	s := newOwnSite(t, "")
	socket := filepath.Join(s.dir, "web.sock")
	s.configure(together + "[web]\nlisten = \"unix:" + socket + "\"\n")
	s.fill()
	s.slurm("scontrol", "create", "reservation", "ReservationName=maintenance", "Nodes="+s.lab.Nodes[0], "Users=root", "StartTime=now+60minutes", "Duration=60", "Flags=IGNORE_JOBS")
	t.Cleanup(func() { s.slurm("scontrol", "delete", "ReservationName=maintenance") })
	waiting := s.submit("--prio-type=be", "--gres=gpu:4", "--time=60", "--wrap", "sleep 600")
	s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.daemon()
	client := &http.Client{Transport: socketTransport(socket)}
	ask := func(path string) (status int, v any, text []byte) {
		answer, err := client.Get("http://priod/api/v1/" + path)
		if err != nil {
			return 0, nil, nil // it does not listen yet
		}
		defer answer.Body.Close()
		if text, err = io.ReadAll(answer.Body); err == nil {
			err = json.Unmarshal(text, &v)
		}
		if err != nil {
			t.Fatal(path, err)
		}
		return answer.StatusCode, v, text
	}
	s.wait("an eviction", func() bool {
		out, _, _ := s.priod("evictions")
		return strings.Contains(out, " te ") || strings.Contains(out, "TE")
	})
	var description struct {
		Paths map[string]struct {
			Get struct {
				Responses map[string]struct {
					Content map[string]struct{ Schema *jsonschema.Schema }
				}
			}
		}
	}
	_, _, text := ask("openapi.json")
	if err := json.Unmarshal(text, &description); err != nil || len(description.Paths) < 10 {
		t.Fatalf("%v: %d paths", err, len(description.Paths))
	}
	for path, d := range description.Paths {
		resolved, err := d.Get.Responses["200"].Content["application/json"].Schema.Resolve(nil)
		if err != nil {
			t.Fatal(path, err)
		}
		path = strings.Replace(strings.TrimPrefix(path, "/api/v1/"), "{id}", waiting, 1)
		status, v, text := ask(path)
		if err := resolved.Validate(v); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %v\n%.2000s", path, status, err, text)
		}
	}
	var queue struct {
		Queue struct {
			All      int
			Schedule struct {
				Jobs         []struct{ Running bool }
				Reservations []struct{ Name, Nodes string }
			}
		}
	}
	s.wait("the reservation in the schedule", func() bool { // read once a minute
		_, _, text := ask("queue")
		if err := json.Unmarshal(text, &queue); err != nil {
			t.Fatal(err)
		}
		return len(queue.Queue.Schedule.Reservations) > 0
	})
	if r := queue.Queue.Schedule.Reservations[0]; r.Name != "maintenance" || r.Nodes != s.lab.Nodes[0] || len(queue.Queue.Schedule.Jobs) == 0 || queue.Queue.All == 0 {
		t.Errorf("%+v", queue.Queue)
	}
	var all struct {
		Map struct {
			Jobs  []struct{ Job, Class string }
			Nodes []struct {
				Name string
				GPUs int `json:"gpus"`
				Held []int
			}
		}
	}
	_, _, text = ask("map")
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, n := range all.Map.Nodes {
		held += len(n.Held)
	}
	if len(all.Map.Nodes) != len(s.lab.Nodes) || held < 24 || len(all.Map.Jobs) == 0 || all.Map.Jobs[0].Class != "be" {
		t.Errorf("%d nodes, %d GPUs held: %s", len(all.Map.Nodes), held, text)
	}
	if status, _, text := ask("jobs/" + waiting + "?if=1"); status != http.StatusOK || !strings.Contains(string(text), `"alternatives"`) {
		t.Errorf("%d: %s", status, text)
	}
	for path, want := range map[string]int{"jobs/99999": 404, "jobs/abc": 400, "queue?page=0": 400, "series?span=year": 400, "nothing": 404} {
		if status, v, _ := ask(path); status != want || v.(map[string]any)["error"] == "" {
			t.Errorf("%s: %d %v, want %d", path, status, v, want)
		}
	}
}
