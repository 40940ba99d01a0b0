package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testShares: the page of shares has a row for the week, one for the combined workload, and a table of the four systems. The study in
// work is built.
func testShares(t *testing.T, work string) {
	const head = "job_id,submit_s,gpus,duration_s,limit_s,type,grace_s,ckpt_s,user,account\n"
	folder := filepath.Join(work, "shares-1")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"shares.csv": "account,nodes,gpus\nvision,1,8\nchem,1,8\n", "all.csv": head, "vc-vision.csv": head, "vc-chem.csv": head}
	for i := range 40 {
		account, class := "vision", []string{"be,60,1800", "untagged,,"}[i%2]
		if i%4 > 1 {
			account = "chem"
		}
		row := fmt.Sprintf("%d,%d,%d,7200,14400,%s,u,%s\n", i+1, 600*i, 1<<(i%4), class, account)
		files["all.csv"] += row
		files["vc-"+account+".csv"] += row
	}
	files["fit.csv"] = files["all.csv"]
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var page bytes.Buffer
	if err := startShares(t.Context(), []string{"--dir", work, "--days", "1", "--seeds", "1", "--jobs", "40"}, &page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| week 1 | ", " of 6 | ", "| combined | ", "| quotas | ", "| owners | ", "| acc5 | 16 | "} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, &page)
		}
	}
	if strings.Contains(page.String(), "NaN") || strings.Contains(page.String(), "%!") {
		t.Errorf("the page has no numbers:\n%s", &page)
	}
	for _, wrong := range [][]string{{"--days", "x"}, {"--seeds", "0"}, {"left"}} {
		if err := startShares(t.Context(), append([]string{"--dir", work}, wrong...), &page); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// A job fits its account's share beside what the account holds and waits for as it comes; later than on a private cluster is more than 2
// minutes.
func TestEntitledByHand(t *testing.T) {
	job := func(gpus int) *sharedJob { return &sharedJob{account: "a", gpus: gpus} }
	runs := map[string]*sharedRun{
		"holds": {submit: 0, start: 0, end: 3600, ran: 3600, job: job(4)},
		"fits":  {submit: 100, start: 300, end: 3900, ran: 3600, job: job(4)},
		"more":  {submit: 200, start: 400, end: 4000, ran: 3600, job: job(1)}, // beside one that waits
	}
	alone := map[string]*sharedRun{}
	for id, x := range runs {
		alone[id] = &sharedRun{submit: x.submit, start: x.submit, job: x.job}
	}
	f := measureShared(runs, alone, map[string]int{"a": 8})
	if f.entitled != 2 || f.later != 1 || f.GPUHours != 9 {
		t.Errorf("%+v", f)
	}
}
