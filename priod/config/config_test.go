package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"slurmprio/etc"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug/wake"
)

// maxTop is the largest SiteFactor and Nice that Slurm takes
// (NICE_OFFSET - 3, slurm.h).
const maxTop = 2147483645

func load(t *testing.T, text string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func TestDefaultsAreValid(t *testing.T) {
	c, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	d := c.Decide()
	if d.Top != 2_000_000_000 || d.Ranking.User != (plan.Budget{Share: 0.1, TimeLimit: time.Hour, HourShare: 0.02}) {
		t.Fatalf("%+v", d)
	}
	if d.Lead != evict.Constants.Rounds.Lead {
		t.Errorf("order owed has the lead %+v", d.Lead)
	}
	if got, want := c.Eviction().Rounds, evict.Constants.Rounds; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := c.Eviction().Policy.Limits, (preemption.Limits{}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// etc/priod.toml and the code know the same keys: none stands there that nothing reads, none is read that does not stand there.
func TestEveryKeyIsListed(t *testing.T) {
	c := &Config{}
	meta, err := toml.Decode(etc.Priod, c)
	if err != nil || len(meta.Undecoded()) > 0 {
		t.Fatalf("etc/priod.toml: %v, not read: %v", err, meta.Undecoded())
	}
	text, err := c.TOML()
	if err != nil {
		t.Fatal(err)
	}
	all, err := toml.Decode(text, &Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all.Keys() {
		if !meta.IsDefined(k...) {
			t.Errorf("etc/priod.toml does not have %s", k)
		}
	}
	if n := len(regexp.MustCompile(`(?m)^[a-z_]+ = `).FindAllString(etc.Priod, -1)); n > 60 {
		t.Errorf("etc/priod.toml has %d keys", n)
	}
}

// Every key has a comment line of its own above it, or shares one with the
// key above it.
func TestEveryKeyIsExplained(t *testing.T) {
	key := regexp.MustCompile(`^[a-z_]+ = `)
	explained := true
	section := ""
	for i, line := range strings.Split(etc.Priod, "\n") {
		switch {
		case strings.HasPrefix(line, "["):
			section = line
		case strings.HasPrefix(line, "#"):
			explained = true
		case line == "":
			explained = false
		case key.MatchString(line) && !explained && section != "[te_budget.account]":
			t.Errorf("etc/priod.toml:%d: %s has no comment", i+1, line)
		}
	}
}

// A key of an earlier version is refused with the name that it has now, which is known.
func TestRenamedKeys(t *testing.T) {
	for was, now := range renamed {
		want := "it is " + now + " now"
		if constantOf(now) != nil {
			want = "it was " + now + ", a constant now ("
		} else if was == now || !slices.Contains(knownKeys(), now) || slices.Contains(knownKeys(), was) {
			t.Errorf("%s: %s is no new name of it", was, now)
		}
		table, key, _ := strings.Cut(was, ".")
		if _, err := load(t, fmt.Sprintf("[%s]\n%s = 1\n", table, key)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", was, err)
		}
	}
}

func TestSingleBudgetsInherit(t *testing.T) {
	c, err := load(t, "[te_budget.users.alice]\ngpus = 16\n[te_budget.accounts.\"bad name\"]\ntime_limit = \"2d\"\n")
	if err != nil {
		t.Fatal(err)
	}
	r := c.Decide().Ranking
	if got := r.Users["alice"]; got != (plan.Budget{GPUs: 16, TimeLimit: time.Hour, HourShare: 0.02}) {
		t.Errorf("%+v", got)
	}
	if got := r.Accounts["bad name"]; got != (plan.Budget{TimeLimit: 48 * time.Hour}) {
		t.Errorf("%+v", got)
	}
}

func TestErrorsNameTheKey(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[ranking]\nordr = \"owed\"", `unknown key "ranking.ordr"; did you mean "ranking.order"?`},
		{"[ranking]\nlever = \"nice\"", `unknown key "ranking.lever"; it was removed: SiteFactor carries the order on each version of Slurm; what nice or priority wrote is given back at the first cycle`},
		{"[rankin]\norder = \"owed\"", `unknown key "rankin`},
		{"[[class]]\nname = \"x\"\nmax_tim = \"1h\"", `:3: unknown key "class.max_tim"; [[class]] has name, `},
		{"[cycle]\ninterval = \"30s\"\nintervl = \"1s\"", `:3: unknown key "cycle.intervl"; did you mean "cycle.interval"?`},
		{"frobnicate = 1", `unknown key "frobnicate"; priod config show lists all keys`},
		{"[ranking]\norder = \"magic\"", `ranking.order: want slurm, owed, not "magic"`},
		{"[ranking]\norder = 5", "priod.toml:2: ranking.order: want a text in quotes, not a whole number"},
		{"\n[sizing]\nenabled = \"yes\"", "priod.toml:3: sizing.enabled: want true or false, not a text in quotes"},
		{"[ranking]\norder = [5]", "priod.toml:2: ranking.order: want a text in quotes, not a list in brackets"},
		{"sizing = true", "priod.toml:1: sizing: want a table, not true or false"},
		{"[slurm]\npartitions = \"gpu\"", "slurm.partitions: want a list in brackets, not a text in quotes"},
		{"[slurm]\npartitions = [\"a100,v100\"]", `slurm.partitions: want names of partitions, each in quotes of its own, not ["a100,v100"]`},
		{"[[consent]]\nevict = true\npartitions = [\"a100,v100\"]", "[[consent]] 1: partitions, qos, accounts: want names, each in quotes of its own"},
		{"[state]\nretention = \"NaNd\"", `state.retention: "NaNd" is no duration`},
		{"[state]\nretention = \"999999d\"", `state.retention: "999999d" is no duration`},
		{"[preemption]\nmax_grace = \"10s\"", `preemption.grace: want from 0s to preemption.max_grace, not "30s"`},
		{"[ranking]\nte_qos = [\"\"]", `ranking.te_qos: want names of QOS, not [""]`},
		{"[ranking]\norder = \"owed\"", "want an allocation.policy beside order owed"},
		{"[ranking]\norder = \"due\"", "ranking.order: want slurm, owed"},
		{"[[class]]\nname = \"a b\"\ntype = \"te\"", `[[class]] "a b": name: want letters`},
		{"[[class]]\nname = \"a\"\ntype = \"x\"", `[[class]] "a": type: want te or be`},
		{"[[class]]\nname = \"a\"\ntype = \"te\"\n[[class]]\nname = \"a\"\ntype = \"be\"", "each name once"},
		{"[[class]]\nname = \"a\"\ntype = \"te\"\njob_name = \"(\"", `job_name: want a regular expression`},
		{"[[class]]\nname = \"a\"\ntype = \"te\"\nmax_tme = \"1h\"", `unknown key "class.max_tme"`},
		{"[[consent]]\npartitions = [\"gpu\"]\ngpu_type = true\nany_partition = true", "[[consent]] 1: any_partition: want gpu_type = true and two or more partitions"},
		{"[[consent]]\npartitions = [\"gpu\"]", "[[consent]] 1: evict, gpu_type, size, switches, requeue: want one of them true"},
		{"[[consent]]\nevict = true\nsignal = \"KILL\"", "[[consent]] 1: signal: want a signal that a program can catch"},
		{"[[consent]]\nsize = true\ngrace = \"1m\"", "[[consent]] 1: grace, signal: want evict = true beside them"},
		{"[[share]]\naccount = \"a\"\ngpus = 4\n[[share]]\naccount = \"a\"\npart = 0.1", `[[share]] "a": account: want each account once for a GPU type: table 1 has it, too`},
		{"[[share]]\naccount = \"a,b\"\ngpus = 4", `[[share]] "a,b": account: want the name of an account`},
		{"[[share]]\naccount = \"a\"\ngpus = 4\npart = 0.1", `[[share]] "a": gpus, part: want one of them`},
		{"[[share]]\naccount = \"a\"\npart = 1.5", `[[share]] "a": gpus, part: want one of them`},
		{"[[share]]\naccount = \"a\"\ngpus = 4\nreturn_within = \"1s\"", `[[share]] "a": return_within: want at least 10s`},
		{"[shares]\nlend = \"some\"", `shares.lend: want returnable, all or none, not "some"`},
		{"[cycle]\ninterval = \"1s\"", "cycle.interval: want at least 2s"},
		{"[cycle]\ninterval = 10", "cycle.interval"},
		{"[cycle]\ncontroller_host = \"ctl1(10.0.0.1)\"", "cycle.controller_host"},
		{"[cycle]\nfollow_controller = true\n[sizing]\nenabled = true", "cycle.follow_controller: want false beside steering or sizing"},
		{"[cycle]\ninterval = \"soon\"", `"soon" is no duration`},
		{"[te_budget.user]\ngpus = -1", "te_budget.user: want no negative limits"},
		{"[te_budget.user]\ngpu_hours_per_day = nan", "te_budget.user"},
		{"[te_budget.user]\nshare = 1.5", "te_budget.user.share = 1.5: want a part from 0"},
		{"[te_budget.account]\ngpu_hours_share = nan", "te_budget.account.gpu_hours_share"},
		{"[preemption]\ngrace_share = -0.1", "preemption.grace_share"},
		{"[preemption]\nloss_share = 2.0", "preemption.loss_share"},
		{"[preemption]\nuser_loss_share = nan", "preemption.user_loss_share"},
		{"[te_budget.users.eve]\ntime_limit = \"-1h\"", "te_budget.users.eve"},
		{"[ranking]\nte_qos = [\"a\"]\nbe_qos = [\"a\"]", "ranking.be_qos"},
		{"[ranking", "priod.toml:1:"},
		{"[state]\ndir = \"here\"", "state.dir: want an absolute path"},
		{"[preemption]\nurgency = inf", "preemption.urgency"},
		{"[log]\nlevel = \"loud\"", "log.level"},
		{"[wake]\nlisten = [\"/run/priod/wake\"]", "wake.listen: want unix:/absolute/path or udp:ADDRESS:PORT"},
		{"[wake]\nlisten = [\"unix:/a\", \"udp:ctl1:9818\"]", "wake.listen"},
		{"[wake]\nlisten = \"unix:/a\"", "wake.listen"},
		{"[speeds]\nhistory = \"0s\"\n[locality]\nslow_nodes = true", "locality.slow_nodes: want speeds.history above 0s"},
		{"[cycle]\nfollow_controller = true\n[locality]\nslow_nodes = true", "cycle.follow_controller"},
		{"[state]\nshared = \"priod\"", "state.shared: want empty, or an absolute path"},
		{"[state]\ndir = \"/var/lib/priod\"\nshared = \"/var/lib/priod/shared\"", "state.shared: want empty, or an absolute path outside of state.dir"},
		{"[speeds]\nmax_error_factor = 1.0", "it was removed: history is used where"},
		{"[speeds]\nworkloads = \"here.toml\"", "speeds.workloads: want an absolute path"},
		{"[speeds]\nsteps = \"--steps [0-9]+\"", "speeds.steps: want a regular expression with one group"},
		{"[speeds]\nsteps = \"([0-9]+\"", "speeds.steps"},
		{"[speeds.types]\na100 = 0.0", "speeds.types.a100 = 0: want a GPU type and a relative speed above 0"},
		{"[speeds.renamed]\na = \"b\"\nb = \"c\"", "speeds.renamed.a = \"b\": want the name that the GPU type has now"},
		{"[rounds]\nenabled = true", "rounds.enabled: want steering.enabled beside rounds"},
		{"[rounds]\nenabled = true\n[steering]\nenabled = true", "steering.enabled: want an allocation.policy"},
		{"[rounds]\nlength = \"4s\"", "rounds.length: want at least 5s"},
		{"[metrics]\nlisten = \"0.0.0.0:9817\"", "metrics.listen: want a loopback address such as 127.0.0.1:9817"},
		{"[metrics]\nlisten = \":9817\"", "metrics.listen"},
		{"[metrics]\nlisten = \"[::]:9817\"", "metrics.listen"},
		{"[metrics]\nlisten = \"10.0.0.1:9817\"", "metrics.listen"},
		{"[metrics]\nlisten = \"localhost:9817\"", "metrics.listen"},
		{"[metrics]\nlisten = \"127.0.0.1\"", "metrics.listen"},
		{"[metrics]\nlisten = \"127.0.0.1:0\"", "metrics.listen"},
		{"[metrics]\nlisten = \"unix:metrics.sock\"", "metrics.listen"},
		{"[web]\nlisten = \"0.0.0.0:9818\"", "web.listen: want a loopback address such as 127.0.0.1:9818"},
		{"[metrics]\nlisten = \"127.0.0.1:9817\"\n[web]\nlisten = \"127.0.0.1:9817\"", "web.listen: want another address than that of metrics.listen"},
		{"[web]\nuser_header = \"X-User:\"", "web.user_header: want the name of a header"},
		{"[web]\nlisten = \"127.0.0.1:9818\"\nuser_header = \"X-User\"", "web.user_header: want with web.listen = \"unix:/absolute/path\": on a loopback address any user of this host could send the header"},
		{"[metrics]\nlisten = \"unix:/" + strings.Repeat("a", 107) + "\"", "metrics.listen"},
	} {
		_, err := load(t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q gives %v; want one line with %q", c.text, err, c.want)
		}
	}
}

func TestMetricsAddress(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:9817", "127.1.2.3:1", "[::1]:9817", "unix:/run/priod/metrics.sock"} {
		if _, err := load(t, fmt.Sprintf("[metrics]\nlisten = %q", address)); err != nil {
			t.Error(err)
		}
	}
}

func TestWakeAddresses(t *testing.T) {
	c, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.WakeAddresses()); got != "["+wake.Default+"]" {
		t.Errorf("priod listens at %s, and sbatchwrap calls %s", got, wake.Default)
	}
	c, err = load(t, "[wake]\nlisten = []")
	if err != nil || len(c.WakeAddresses()) != 0 {
		t.Errorf("%v, %v", c.WakeAddresses(), err)
	}
	c, err = load(t, "[wake]\nlisten = [\"unix:/srv/wake\", \"udp:[::1]:9818\"]")
	if err != nil || fmt.Sprint(c.WakeAddresses()) != "[unix:/srv/wake udp:[::1]:9818]" {
		t.Errorf("%v, %v", c.WakeAddresses(), err)
	}
}

func TestMissingFile(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.toml")); err == nil || !strings.Contains(err.Error(), "none.toml") {
		t.Fatal(err)
	}
}

func TestShowReadsBack(t *testing.T) {
	c, err := load(t, "[state]\nretention = \"36h\"\n[te_budget.users.bob]\ngpus = 1\n")
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.TOML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := load(t, text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if second, _ := again.TOML(); second != text {
		t.Fatalf("%s\nreads back as\n%s", text, second)
	}
}

// FuzzConfig: what is taken can be shown, reads back as the same and is within
// its limits; what is refused is refused in one line.
func FuzzConfig(f *testing.F) {
	f.Add("[ranking]\ntop = 1")
	f.Add("[sizing]\ndepth = []\nstart_timeout = \"1s\"\n[limits]\nagent_queue = {}")
	f.Add("[te_budget.users.\"e\\nve\"]\ngpus = 1\ntime_limit = \"2d\"\n[slurm]\npartitions = [\"a\\u001b\"]\n")
	f.Add("[state]\nretention = \"36h\"\n[metrics]\nlisten = \"unix:/x\"\n")
	f.Add("[limits]\nwrites_per_second = nan\n[log]\nlevl = \"\\u202e\"\n")
	base, err := Defaults() // decoding them anew for each input would take most of the time
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := *base
		for _, b := range []*Budget{&c.TEBudget.User, &c.TEBudget.Account} {
			b.GPUs, b.TimeLimit, b.GPUHoursPerDay = copied(b.GPUs), copied(b.TimeLimit), copied(b.GPUHoursPerDay)
		}
		if err := c.read("priod.toml", text, nil); err != nil {
			return
		}
		shown, err := c.TOML()
		if err != nil {
			t.Fatal(err)
		}
		again := &Config{}
		if err := again.read("priod.toml", shown, nil); err != nil {
			t.Fatalf("%v in\n%s", err, shown)
		}
		if second, err := again.TOML(); err != nil || second != shown {
			t.Fatalf("%v: %s\nreads back as\n%s", err, shown, second)
		}
		if d := c.Decide(); d.Top < 1 || d.Top > maxTop || d.Step < 0 || d.WritesPerCycle < 1 {
			t.Fatalf("%+v", d)
		}
	})
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
