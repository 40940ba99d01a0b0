package slurmplug

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Diag reads how busy slurmctld is: from its metrics where UseMetrics found them, else
// or when they do not answer from sdiag.
func (c *Client) Diag(ctx context.Context) (Diag, error) {
	c.mu.Lock()
	address := c.metrics
	c.mu.Unlock()
	if address != "" {
		if d, err := c.diagByMetrics(ctx, address); err == nil {
			return d, nil
		}
	}
	return query(ctx, c, parseDiag, "sdiag")
}

// parseDiag reads "Key: number". The heading of the last table says that the
// output is whole.
func parseDiag(out string) (d Diag, err error) {
	err = readCounts("sdiag", out, ":", map[string]*int{"Agent queue size": &d.AgentQueue, "DBD Agent queue size": &d.DBDAgentQueue})
	if err == nil && !strings.Contains(out, "Remote Procedure Call statistics by user") {
		err = doubtful("sdiag", "cut off before the statistics by user")
	}
	if err != nil {
		return Diag{}, err
	}
	return d, nil
}

// readCounts reads the numbers that are needed from lines of a name and a number.
func readCounts(source, text, sep string, need map[string]*int) error {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), sep)
		count, wanted := need[key]
		if !wanted {
			continue
		}
		n, err := parseUint(strings.TrimSpace(value), math.MaxInt32)
		if err != nil {
			return doubtful(source, "%s: %w", key, err)
		}
		*count = int(n)
		delete(need, key)
	}
	for key := range need {
		return doubtful(source, "%s is missing", key)
	}
	return nil
}

// metricsAddress is where slurmctld serves its metrics by HTTP: on its own port, since
// 25.11 and with MetricsType set; "" where it does not, where it wants to know who asks
// (MetricsAuthUsers, PrivateData), or where another controller may be the one in charge.
func (c Config) metricsAddress() string {
	if c.Get("MetricsType") != "metrics/openmetrics" || c.Get("MetricsAuthUsers") != "" ||
		!slices.Contains([]string{"", "none"}, c.Get("PrivateData")) || c.Get("SlurmctldHost[1]") != "" {
		return ""
	}
	host, addr, _ := strings.Cut(c.Get("SlurmctldHost[0]"), "(") // "ctl(10.0.0.1)"
	if addr = strings.TrimSuffix(addr, ")"); addr != "" {
		host = addr
	}
	port := c.Get("SlurmctldPort")
	if _, err := parseUint(port, math.MaxUint16); err != nil || host == "" { // a range has several
		return ""
	}
	return net.JoinHostPort(host, port)
}

// ReadsMetrics reports whether slurmctld serves its metrics so that Diag can read them.
func (c Config) ReadsMetrics() bool { return c.metricsAddress() != "" }

// UseMetrics makes Diag read slurmctld's metrics instead of sdiag where it serves
// them to everyone: no process, and no RPC that counts against a rate limit.
func (c *Client) UseMetrics(conf Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metrics = conf.metricsAddress()
}

// metricsClient uses no proxy, and follows no redirect: slurmctld is inside the cluster.
var metricsClient = &http.Client{
	Transport:     &http.Transport{Proxy: nil},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// metricsPatience is how long they may take: a slurmctld that hangs is asked by sdiag
// after it, which has a limit of its own.
const metricsPatience = 2 * time.Second

// maxMetrics bounds what is read of them; 26.05 serves 7 kB.
const maxMetrics = 1 << 20

// diagByMetrics is Diag from the page /metrics/scheduler.
func (c *Client) diagByMetrics(ctx context.Context, address string) (Diag, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, min(c.opts.ReadTimeout, metricsPatience), ErrTimeout)
	defer cancel()
	url := "http://" + address + "/metrics/scheduler"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Diag{}, err
	}
	answer, err := metricsClient.Do(request)
	if err != nil {
		return Diag{}, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return Diag{}, doubtful(url, "%s", answer.Status)
	}
	return parseMetrics(io.LimitReader(answer.Body, maxMetrics))
}

// parseMetrics reads lines "NAME NUMBER".
func parseMetrics(page io.Reader) (d Diag, err error) {
	text, err := io.ReadAll(page)
	if err != nil {
		return d, fmt.Errorf("slurmctld's metrics: %w", err)
	}
	if err = readCounts("slurmctld's metrics", string(text), " ", map[string]*int{
		"slurm_agent_queue_size": &d.AgentQueue, "slurm_slurmdbd_queue_size": &d.DBDAgentQueue,
	}); err != nil {
		return Diag{}, err
	}
	return d, nil
}

// Ping asks each slurmctld whether it is up. A controller that is down is no
// error; output without a controller is.
func (c *Client) Ping(ctx context.Context) ([]Controller, error) {
	out, err := c.ask(ctx, Command{Name: "scontrol", Args: []string{"ping"}})
	if err != nil && !errors.Is(err, ErrExit) { // exit status 1: one is down
		return nil, err
	}
	all, parseErr := parsePing(string(out.Stdout))
	if parseErr != nil {
		return nil, errors.Join(parseErr, err)
	}
	return all, nil
}

// parsePing reads "Slurmctld(primary) at HOST is UP" lines.
func parsePing(out string) ([]Controller, error) {
	var all []Controller
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "Slurmctld(")
		if !ok {
			continue // "** RESTORE SLURMCTLD DAEMON TO SERVICE **"
		}
		role, rest, ok1 := strings.Cut(rest, ") at ")
		host, state, ok2 := strings.Cut(rest, " is ")
		if !ok1 || !ok2 || state != "UP" && state != "DOWN" {
			return nil, doubtful("scontrol ping", "%q", firstLine([]byte(line)))
		}
		all = append(all, Controller{Role: role, Host: host, Up: state == "UP"})
	}
	if all == nil {
		return nil, doubtful("scontrol ping", "no controller in %q", firstLine([]byte(out)))
	}
	return all, nil
}
