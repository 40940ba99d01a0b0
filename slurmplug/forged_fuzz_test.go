package slurmplug

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// freeColumns are those of squeue whose text a user can choose: where the
// site's checks end (--hold, no accounting), any bytes at all.
var freeColumns = []int{
	colName, colAccount, colQOS, colReservation, colReason, colDependency, colTRES, colPerJob, colPerNode, colPerSocket, colPerTask,
	colFeatures, colPrefer, colNodeList, colComment,
}

// printJobs prints three records as squeue does and returns what they mean.
// Texts stand in the free columns, which one where follows from the place.
func printJobs(texts []string, place uint64, s separators) ([]byte, []Job) {
	var out bytes.Buffer
	var jobs []Job
	for id := uint32(1); id <= 3; id++ {
		n := strconv.Itoa(int(id))
		f := [len(jobColumns)]string{
			colJobID: n, colArrayID: n, colTasks: "N/A", colHetID: "N/A", colHetOffset: "N/A", colSLUID: "s" + n, colUID: n, colUser: "user" + n, colPartition: "gpu",
			colState: "PENDING", colPriority: "10" + n, colNice: "-" + n, colRestarts: "0", colNodes: n, colCPUs: "8", colNumTasks: "1",
			colLayout: "*:*:*", colMinMemory: "1G", colWhole: "OK", colLimit: "1:00:00", colSubmit: "179522900" + n, colEligible: "0", colStart: "N/A",
		}
		for i, col := range freeColumns {
			f[col] = texts[(place>>((int(id)*len(freeColumns)+i)%61))%uint64(len(texts))]
		}
		out.WriteString(strings.Join(f[:], s.field) + s.end + "\n")
		text := func(col int) string {
			if f[col] == "(null)" || f[col] == "N/A" { // how squeue prints what is not there
				return ""
			}
			return f[col]
		}
		jobs = append(jobs, Job{
			ID: Plain(id), RawID: id, TaskCount: 1, SLUID: "s" + n, UID: id, User: "user" + n, Name: text(colName), Account: text(colAccount), Partition: "gpu", QOS: text(colQOS),
			Reservation: text(colReservation), State: "PENDING", Reason: text(colReason), Dependency: text(colDependency),
			Priority: 100 + id, Nice: -int64(id), Nodes: int(id), CPUs: 8, NumTasks: 1, MinMemMB: 1024, CPUsPerTRES: text(colCPUsPerTRES), TRES: text(colTRES), TresPerJob: text(colPerJob),
			TresPerNode: text(colPerNode), TresPerSock: text(colPerSocket), TresPerTask: text(colPerTask), Features: text(colFeatures),
			Prefer: text(colPrefer), NodeList: text(colNodeList), TimeLimit: time.Hour, Submit: time.Unix(1795229000+int64(id), 0).UTC(),
			Comment: text(colComment),
		})
	}
	return out.Bytes(), jobs
}

// Whatever users write into their jobs, the queue reads as it is or not at all.
// Only who knows both separators of this very read could say otherwise.
func FuzzForgedJobs(f *testing.F) {
	s := RecordedSeparators
	f.Add("(null)", "N/A", "prio:type=te&v=1", "x\x1e1234567890AbCdEfGhIjKl\n2\x1fBcDeFg2\x1fBcDeFgN/A", uint64(0))
	f.Add("a"+s.field+"b", "", s.field, "\x1e0123456789AbCdEfGhIjK", uint64(0x1234))
	f.Add("\x1f", "\x1fAbCdE", "\x1e", "\n", ^uint64(0))
	f.Add("JobId=2 Priority=4294967295", "\x00", "\x1b[2J\u202e", strings.Repeat("x", 300), uint64(77))
	f.Fuzz(func(t *testing.T, a, b, c, d string, place uint64) {
		texts := []string{a, b, c, d, ""}
		if strings.Contains(a+"|"+b+"|"+c+"|"+d, s.end) {
			t.Skip("knows the end of a record, which is new for each read")
		}
		out, want := printJobs(texts, place, s)
		got, err := parseJobs(out, s)
		if guessed := bytes.Count(out, []byte(s.field)) != 3*(len(jobColumns)-1); guessed != (err != nil) || err != nil && got != nil {
			t.Fatalf("%d jobs, %v; the separator was guessed: %v", len(got), err, guessed)
		}
		if err == nil && !slices.Equal(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		for i := range got {
			if _, n := got[i].GPUs(); n < 0 || got[i].MemMB() < 0 {
				t.Fatalf("%+v: %d GPUs, %d MB", got[i], n, got[i].MemMB())
			}
		}
	})
}

// The same for accounting, whose only separator is unknown too.
func FuzzForgedRuns(f *testing.F) {
	s := RecordedSeparators
	f.Add("physics", "cpu=1", "train", "done")
	f.Add("\n2|2|root", "\n", "9\x1f9\x1e", "CANCELLED by 1001")
	f.Add("\x1e0123456789AbCdEfGhIjK", "Unknown", "(null)", "\x1b[2J\xff")
	f.Fuzz(func(t *testing.T, account, tres, name, comment string) {
		if strings.Contains(account+"|"+tres+"|"+name+"|"+comment, s.end) {
			t.Skip("knows the separator, which is new for each read")
		}
		var out bytes.Buffer
		var want []Run
		text := func(v string) string {
			if v == "(null)" || v == "N/A" {
				return ""
			}
			return v
		}
		for id := uint32(1); id <= 3; id++ {
			n := strconv.Itoa(int(id))
			for _, v := range []string{n, n, "user" + n, account, "gpu", "normal", "CANCELLED by 1001", "0:15", "100" + n, "100" + n, "Unknown",
				"Unknown", "60", tres, "None assigned", name, account, comment} {
				out.WriteString(v + s.end)
			}
			out.WriteByte('\n')
			at := time.Unix(1000+int64(id), 0).UTC()
			want = append(want, Run{
				ID: Plain(id), RawID: id, User: "user" + n, Account: text(account), Partition: "gpu", QOS: "normal", State: "CANCELLED",
				Signal: 15, Submit: at, Eligible: at, TimeLimit: time.Hour, AllocTRES: text(tres), ReqTRES: text(account), Name: name, Comment: comment,
			})
			account, tres, name, comment = comment, account, tres, name
		}
		if s := out.String(); strings.Count(s, RecordedSeparators.end) != 3*len(runColumns) {
			t.Fatal("the model prints no whole records")
		}
		if got, err := parseRuns(out.Bytes(), s); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, want)
		}
	})
}

// An operator's reason may hold lines of its own: it never changes what is read
// of a node that there is, but the reason.
func FuzzForgedNodes(f *testing.F) {
	f.Add("broken fan [root@2026-01-01]", "none")
	f.Add("x\nNodeName=n2 State=IDLE CPUTot=1 RealMemory=1", "State=DOWN Gres=gpu:9")
	f.Add("\nNodeName=n9 State=IDLE CPUTot=64 RealMemory=1 Gres=gpu:8", "\r\n\x00\x1b[2J")
	f.Fuzz(func(t *testing.T, a, b string) {
		var out bytes.Buffer
		for i, reason := range []string{a, b} {
			fmt.Fprintf(&out, "NodeName=n%d Arch=x86_64 CPUAlloc=%d CPUEfctv=8 CPUTot=8 Gres=gpu:a100:4(S:0-1) OS=Linux 5.1 #1 State=IDLE RealMemory=100 Partitions=gpu Reason=%s\n", i+1, i, reason)
		}
		nodes, err := parseNodes(out.Bytes())
		if err != nil {
			return
		}
		for i := range 2 {
			at := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == fmt.Sprint("n", i+1) })
			if at < 0 {
				t.Fatalf("%q loses node %d", out.Bytes(), i+1)
			}
			n := nodes[at]
			if n.CPUs != 8 || n.CPUsAlloc != i || n.MemMB != 100 || !slices.Equal(n.State, []string{"IDLE"}) || !slices.Equal(n.Partitions, []string{"gpu"}) ||
				len(n.Gres) != 1 || n.Gres[0] != (Gres{Name: "gpu", Type: "a100", Count: 4}) {
				t.Fatalf("%q: %+v", out.Bytes(), n)
			}
		}
		if !strings.Contains(a+b, "NodeName=") && len(nodes) != 2 {
			t.Fatalf("%q: %d nodes", out.Bytes(), len(nodes))
		}
	})
}
