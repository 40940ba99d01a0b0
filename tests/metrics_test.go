package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"slurmprio/tests/lab"
)

// freePort is a loopback address that nobody uses.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// scraper asks a priod's endpoint as Prometheus does.
type scraper struct {
	*running
	address string
}

func (s scraper) get(path string) (*http.Response, error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		if path, unix := strings.CutPrefix(s.address, "unix:"); unix {
			return d.DialContext(ctx, "unix", path)
		}
		return d.DialContext(ctx, "tcp", s.address)
	}}}
	return c.Get("http://localhost" + path)
}

func (s scraper) scrape() map[string]*dto.MetricFamily {
	s.Helper()
	r, err := s.get("/metrics")
	if err != nil {
		s.Fatal(err)
	}
	defer r.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r.Body)
	if err != nil {
		s.Fatal(err)
	}
	return families
}

// value is one series: its metric's name and its labels in order, "name" or
// "name{class=te,state=running}".
func (s scraper) value(series string) float64 {
	s.Helper()
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	for _, m := range s.scrape()[name].GetMetric() {
		var own []string
		for _, l := range m.GetLabel() {
			own = append(own, l.GetName()+"="+l.GetValue())
		}
		if strings.Join(own, ",") == labels {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	s.Fatalf("no %s", series)
	return 0
}

func (s scraper) waitValue(series string, ok func(float64) bool) {
	s.Helper()
	s.wait(series, func() bool { return ok(s.value(series)) })
}

func (s scraper) health() (code int, reason string) {
	s.Helper()
	r, err := s.get("/health")
	if err != nil {
		s.Fatal(err)
	}
	defer r.Body.Close()
	var state struct {
		Healthy bool
		Reason  string
	}
	if err := json.NewDecoder(r.Body).Decode(&state); err != nil || state.Healthy != (r.StatusCode == http.StatusOK) {
		s.Fatalf("%d, %+v, %v", r.StatusCode, state, err)
	}
	return r.StatusCode, state.Reason
}

func is(want float64) func(float64) bool { return func(v float64) bool { return v == want } }

func atLeast(want float64) func(float64) bool { return func(v float64) bool { return v >= want } }

// What happens on the cluster shows in the metrics, over TCP and a socket.
func TestMetrics(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{})
	for _, kind := range []string{"tcp", "unix"}[:rounds(1, 2)] {
		t.Run(kind, func(t *testing.T) {
			address := freePort(t)
			if kind == "unix" {
				address = "unix:" + filepath.Join(t.TempDir(), "metrics.sock")
			}
			s := newSiteOn(t, l, fmt.Sprintf("%s[metrics]\nlisten = %q\n[te_budget.user]\ngpus = 2\n", quick, address))
			trainings := s.fill()
			d := s.daemon()
			d.waitLog("started")
			m := scraper{d, address}

			m.waitValue("priod_jobs{class=be,state=running}", is(float64(len(trainings))))
			s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
			m.waitValue("priod_writes_total{status=applied}", atLeast(1))
			s.submit("--prio-type=te", "--gres=gpu:2", "--time=360", "--wrap", "sleep 600")
			m.waitValue("priod_decisions{reason=over-budget}", is(1))
			m.waitValue("priod_jobs{class=te,state=pending}", is(1))

			s.must("pause", "--why", "a test")
			m.waitValue("priod_paused", is(1))
			if code, reason := m.health(); code != http.StatusOK {
				t.Errorf("paused: %d, %s", code, reason)
			}
			third := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
			m.waitValue("priod_unwritten_jobs{reason=paused}", is(1))
			s.must("resume")
			m.waitValue("priod_unwritten_jobs{reason=paused}", is(0))
			m.waitValue("priod_writes_total{status=applied}", atLeast(2))
			s.slurm("scontrol", "update", "JobId="+third, "SiteFactor=12345")
			m.waitValue("priod_unwritten_jobs{reason=foreign-value}", is(1))
			for _, stage := range []string{"observe", "decide", "record", "act"} {
				if n := m.value("priod_cycle_stage_duration_seconds{stage=" + stage + "}"); n < 1 {
					t.Errorf("%v samples of %s", n, stage)
				}
			}

			if status := d.stop(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if r, err := m.get("/"); err == nil {
				r.Body.Close()
				t.Error("the endpoint outlives the daemon")
			}
		})
	}
}

// slurmctld hangs and comes back; the endpoint goes on answering.
func TestHealthFollowsTheController(t *testing.T) {
	s := newOwnSite(t, "")
	address := freePort(t)
	s.configure(fmt.Sprintf("%s[metrics]\nlisten = %q\n", quick, address))
	s.hurries("5s")
	d := s.daemon()
	d.waitLog("started")
	m := scraper{d, address}
	healthy := func() bool { code, _ := m.health(); return code == http.StatusOK }
	s.wait("health", healthy)

	if err := s.lab.Pause("slurmctld"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.lab.Continue("slurmctld") })
	s.wait("503", func() bool { return !healthy() })
	if _, reason := m.health(); !strings.Contains(reason, "Slurm could not be read, or not be trusted, for") && !strings.Contains(reason, "no cycle has succeeded for") {
		t.Errorf("the reason is %q", reason)
	}
	m.waitValue("priod_cycles_total{result=failed}", atLeast(1))
	if v := m.value("priod_healthy"); v != 0 {
		t.Errorf("priod_healthy is %v", v)
	}
	if err := s.lab.Continue("slurmctld"); err != nil {
		t.Fatal(err)
	}
	s.wait("health after the pause", healthy)
	d.stop()
}

// A taken address is an error at start; on reload the old one stays.
func TestMetricsAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := fmt.Sprintf("[metrics]\nlisten = %q\n", l.Addr())
	s := newSite(t, quick+taken)
	_, errs, status := s.priod("run")
	if lines := strings.Split(strings.TrimSpace(errs), "\n"); status != 1 || len(lines) != 1 || !strings.Contains(errs, "metrics.listen: ") {
		t.Errorf("exit status %d\n%s", status, errs)
	}

	first, second := freePort(t), freePort(t)
	s.configure(fmt.Sprintf("%s[metrics]\nlisten = %q\n", quick, first))
	d := s.daemon()
	d.waitLog("started")
	m := scraper{d, first}
	reload := func(settings string) {
		s.configure(quick + settings)
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	reload(taken)
	m.waitValue("priod_reloads_total{result=failed}", is(1))
	d.waitLog("the old one stays")
	reload("[metrics]\nlisten = \"0.0.0.0:9817\"\n")
	m.waitValue("priod_reloads_total{result=failed}", is(2))
	d.waitLog("want a loopback address")
	reload(fmt.Sprintf("[metrics]\nlisten = %q\n", second))
	d.waitLog("configuration reloaded")
	if v := (scraper{d, second}).value("priod_reloads_total{result=ok}"); v != 1 {
		t.Errorf("after the move %v reloads", v)
	}
	if r, err := m.get("/"); err == nil {
		r.Body.Close()
		t.Error("the old address still answers")
	}
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
