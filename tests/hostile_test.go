package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"slurmprio/tests/lab"
)

// shown fails the test when a terminal could not bear the text.
func (s *site) shown(where, text string) {
	s.Helper()
	for i, r := range text {
		if bad := r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)); bad || r != '\n' && !unicode.IsPrint(r) {
			s.Fatalf("%U stands in %s:\n%q", r, where, text)
		}
	}
}

// ours are the values of some jobs, as Slurm prints them.
func (s *site) ours(ids ...string) string {
	s.Helper()
	return s.slurm("squeue", "--noheader", "--sort=i", "--jobs="+strings.Join(ids, ","), "--Format=JobID:|,Nice:|,Feature:|,TimeLimit:|,tres-per-node:|,Comment:|,Name:|")
}

// A user without rights puts into a job whatever Slurm takes, by sbatch and by
// sbatchwrap. priod reads, decides, writes and shows it, and no other job
// changes for it.
func TestHostileUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("acting as another user needs root; make test as root runs this")
	}
	address := "unix:" + filepath.Join(t.TempDir(), "metrics.sock")
	settings := quick + fmt.Sprintf("[metrics]\nlisten = %q\n[log]\nlevel = \"trace\"\n", address)
	s := newOwnSite(t, settings+"format = \"json\"\n")
	s.fill()
	be := s.submit("--gres=gpu:1", "--time=60", "--comment=mine", "--constraint=a100", "--wrap", "sleep 600")
	te := s.submit("--prio-type=te", "--gres=gpu:1", "--nice=7", "--time=5", "--wrap", "sleep 600")
	before := s.ours(be, te)

	me := s.lab.As(lab.PlainUser)
	t.Cleanup(func() { s.slurm("scancel", "--quiet", "--user="+lab.PlainUser) })
	record := te + "\x1f" + te + "\x1fN/A\x1e\n" + te + "|4000000000|0|0|0\nJobId=" + te + " Priority=0\n"
	evils := []string{
		"x\nupdate JobId=" + be + " Priority=1\nscontrol: !!\n" + record,
		"'; DROP TABLE jobs; --\" $(touch owned) `touch owned` ; touch owned | %s%n {{.}} <script>alert(1)</script>",
		"\x1b[2J\x1b]0;owned\x07\x7f\u009b31m\u202egnp.exe\u2066\u200f\U000e0041\r\b",
		"\xff\xfe\xc3( not UTF-8 \xed\xa0\x80",
		strings.Repeat("é\n", 300),
		"(null)", "N/A", "prio:type=te&v=1", "-1", "\x1e\x1f\t\v",
	}
	var theirs []string
	refused := 0 // by Slurm, or by sbatchwrap
	submit := func(program string, args ...string) {
		args = append([]string{"--parsable", "--output=/dev/null", "--time=5"}, args...)
		out, err := me.Run(t.Context(), program, append(args, "--wrap", "sleep 600")...)
		switch {
		case err == nil:
			theirs = append(theirs, strings.TrimSpace(out))
		case errors.As(err, new(*exec.ExitError)):
			refused++
		default:
			t.Fatal(err)
		}
	}
	wrap := filepath.Join(bin, "sbatchwrap")
	for _, evil := range evils {
		submit("sbatch", "--gres=gpu:1", "--job-name="+evil, "--comment="+evil, "--chdir=/"+evil)
		submit("sbatch", "--gres=gpu:1", "--comment=prio:type=te&v=1 "+evil)
		submit(wrap, "--prio-type=be", "--gres=gpu:1", "--job-name="+evil, "--comment="+evil)
	}
	free := len(theirs)
	for _, evil := range evils[:4] { // what Slurm checks, unless the job is held
		for _, option := range []string{"account", "wckey", "constraint", "prefer", "gres", "dependency", "qos", "reservation", "partition", "licenses", "gpus", "nodelist"} {
			submit("sbatch", "--hold", "--"+option+"="+evil)
		}
		submit(wrap, "--gres=gpu:1", "--prio-workload="+evil)
	}
	t.Logf("%d jobs let in, %d of them by unchecked fields; %d refused", len(theirs), free, refused)
	if free < 20 {
		t.Errorf("only %d hostile jobs were let in", free)
	}
	texts := func() string {
		return s.slurm("squeue", "--noheader", "--sort=i", "--user="+lab.PlainUser, "--Format=JobID:|,Name:|,Comment:|,Feature:|,tres-per-node:|,WorkDir:|")
	}
	asSent := texts()
	s.eligible(2 + free)

	d := s.daemon()
	m := scraper{d, address}
	s.wait("a te job's value", func() bool { return strings.Contains(d.log.String(), `"job":"`+te+`"`) })
	m.waitValue("priod_cycles_total{result=ok}", atLeast(2))

	verbs := [][]string{{"queue"}, {"report", "history", "--most=500"}, {"run", "--once", "--dry-run"}}
	for i, id := range append([]string{be, te}, theirs...) {
		verbs = append(verbs, append([][]string{{"explain"}, {"explain", "--history"}}[i/3%2], id)) // each kind of text meets both
	}
	for _, verb := range verbs {
		s.shown(fmt.Sprint(verb), s.must(verb...))
		out := s.must(append(verb, "--json")...)
		if !json.Valid([]byte(out)) {
			t.Fatalf("%v --json is not valid: %q", verb, out)
		}
		s.shown(fmt.Sprint(verb, " --json"), out)
	}
	for _, args := range [][]string{{"check"}, {"check", "--json"}} {
		out, errs, _ := s.priod(args...)
		s.shown("check", out+errs)
	}
	for _, path := range []string{"/metrics", "/health", "/"} {
		r, err := m.get(path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		text := string(body)
		s.shown(path, text)
		for _, word := range []string{"DROP TABLE", "<script", "owned"} {
			if strings.Contains(text, word) {
				t.Errorf("%s shows %q", path, word)
			}
		}
	}
	d.stop()
	s.shown("the log", d.log.String())
	for line := range bytes.Lines([]byte(d.log.String())) {
		if !json.Valid(line) {
			t.Errorf("the log has a line that is no JSON: %q", line)
		}
	}

	// Whose jobs there are, and which class they have, is as submitted.
	var queue struct {
		Jobs []struct{ Job, User, Class string }
	}
	s.json(&queue, "queue")
	users := map[string]string{}
	for _, j := range queue.Jobs {
		users[j.Job] = j.User
		if want := map[string]string{te: "te", be: "be"}[j.Job]; want != "" && j.Class != want {
			t.Errorf("job %s is %s", j.Job, j.Class)
		}
	}
	if len(users) != len(theirs)+2 || users[be] == lab.PlainUser || users[te] == lab.PlainUser {
		t.Errorf("the queue holds %d jobs, want %d: %v", len(users), len(theirs)+2, users)
	}
	for _, id := range theirs {
		if users[id] != lab.PlainUser {
			t.Errorf("job %s belongs to %q", id, users[id])
		}
	}
	if after := s.ours(be, te); after != before {
		t.Errorf("other jobs were\n%s\nand are\n%s", before, after)
	}
	if order := s.order(); slices.Index(order, te) > slices.Index(order, be) {
		t.Errorf("the trial stands behind the training: %v", order)
	}
	if now := texts(); now != asSent {
		t.Errorf("the hostile jobs were changed from\n%q\nto\n%q", asSent, now)
	}

	// The text log, and back to where it was.
	s.configure(settings + "format = \"text\"\n")
	_, errs, status := s.priod("run", "--once")
	s.shown("the log", errs)
	for line := range strings.Lines(errs) {
		if _, err := time.Parse("2006-01-02T15:04:05.000Z0700", strings.SplitN(line, " ", 2)[0]); err != nil && !strings.HasPrefix(line, "  ") {
			t.Errorf("a line of the log that priod did not begin: %q", line)
		}
	}
	if status != 0 {
		t.Errorf("exit status %d: %s", status, errs)
	}
	s.shown("reset", s.must("reset"))
	if left := strings.Fields(s.slurm("sprio", "--noheader", "--format=%S")); len(left) == 0 || slices.ContainsFunc(left, func(v string) bool { return v != "0" }) {
		t.Errorf("reset leaves SiteFactor %v", left)
	}
	if matches, _ := filepath.Glob(filepath.Join(s.dir, "owned")); matches != nil {
		t.Error("a hostile text was run")
	}
}
