package slurmplug

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestMetricsAddress(t *testing.T) {
	for text, want := range map[string]string{
		"MetricsType = metrics/openmetrics\nSlurmctldHost[0] = ctl(10.0.0.1)\nSlurmctldPort = 6817\nPrivateData = none": "10.0.0.1:6817",
		"MetricsType = metrics/openmetrics\nSlurmctldHost[0] = ctl\nSlurmctldPort = 6817":                               "ctl:6817",
		"MetricsType = metrics/openmetrics\nSlurmctldHost[0] = ctl\nSlurmctldPort = 6817-6820":                          "",
		"MetricsType = metrics/openmetrics\nSlurmctldHost[0] = ctl\nSlurmctldHost[1] = other\nSlurmctldPort = 6817":     "",
		"MetricsType = metrics/openmetrics\nSlurmctldHost[0] = ctl\nSlurmctldPort = 6817\nPrivateData = jobs":           "",
		"MetricsType = metrics/openmetrics\nMetricsAuthUsers = ann\nSlurmctldHost[0] = ctl\nSlurmctldPort = 6817":       "",
		"MetricsType = (null)\nSlurmctldHost[0] = ctl\nSlurmctldPort = 6817":                                            "",
		"SlurmctldHost[0] = ctl\nSlurmctldPort = 6817":                                                                  "",
	} {
		conf, err := parseConfig("SLURM_VERSION = 26.05.5\nClusterName = lab\n" + text + "\nSlurmctld(primary) at ctl is UP\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := conf.metricsAddress(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// What cannot be read of the metrics is read of sdiag.
func TestDiagByMetrics(t *testing.T) {
	page := recordedMetrics
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics/scheduler" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(page))
	}))
	defer server.Close()
	c := answering(recordingOf(t, "26.05", "sdiag.out"), "", nil)
	c.metrics = server.Listener.Addr().String()
	if d, err := c.Diag(t.Context()); err != nil || d != (Diag{AgentQueue: 7, DBDAgentQueue: 41}) {
		t.Errorf("%+v, %v", d, err)
	}
	for _, page = range []string{"", "slurm_agent_queue_size 7\n", strings.Replace(recordedMetrics, " 41", " many", 1)} {
		if _, err := parseMetrics(strings.NewReader(page)); !errors.Is(err, ErrDoubtful) {
			t.Errorf("%q: %v", page, err)
		}
		if d, err := c.Diag(t.Context()); err != nil || d != (Diag{}) {
			t.Errorf("%q: %+v, %v", page, d, err)
		}
	}
	elsewhere := httptest.NewServer(http.RedirectHandler(server.URL+"/metrics/scheduler", http.StatusFound))
	defer elsewhere.Close()
	page, c.metrics = recordedMetrics, elsewhere.Listener.Addr().String()
	if d, err := c.Diag(t.Context()); err != nil || d != (Diag{}) {
		t.Errorf("sent elsewhere: %+v, %v", d, err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.metrics = closed.Addr().String()
	closed.Close()
	if _, err := c.Diag(t.Context()); err != nil {
		t.Errorf("nobody listens: %v", err)
	}
}

// recordedMetrics is a part of what 26.05.5 served, with other numbers.
const recordedMetrics = `# HELP slurm_agent_cnt Number of agent threads
# TYPE slurm_agent_cnt gauge
slurm_agent_cnt 0
# HELP slurm_agent_queue_size Outgoing RPC retry queue length
# TYPE slurm_agent_queue_size gauge
slurm_agent_queue_size 7
# HELP slurm_slurmdbd_queue_size Queued messages to SlurmDBD
# TYPE slurm_slurmdbd_queue_size gauge
slurm_slurmdbd_queue_size 41
`
