package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"slurmprio/priod/config"
)

// endpoint serves on one address; the zero value serves nothing.
type endpoint struct {
	address string
	server  *http.Server
	answers *atomic.Pointer[http.Handler] // of the server: those that hold at the moment
}

// move answers with h on the address that a key of the configuration says from now on, on none
// when it is empty. On error the old address and its handler stay.
func (e *endpoint) move(key, address string, h http.Handler, listen func(address string) (net.Listener, error), log hclog.Logger) error {
	if address == e.address {
		if e.answers != nil {
			e.answers.Store(&h)
		}
		return nil
	}
	current := new(atomic.Pointer[http.Handler])
	current.Store(&h)
	var next *http.Server
	if address != "" {
		l, err := listen(address)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		next = Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*current.Load()).ServeHTTP(w, r) }), log)
		go func() {
			if err := next.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				log.Error("requests are no longer answered", "key", key, "listen", address, "error", err)
			}
		}()
		log.Info("serving", "key", key, "listen", address)
	}
	e.close()
	e.address, e.server, e.answers = address, next, current
	return nil
}

// Server is a server that a flooding or slow client, or another site's page, cannot use.
func Server(h http.Handler, log hclog.Logger) *http.Server {
	return &http.Server{
		Handler:           ownNames(h),
		ConnContext:       ofConn,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second, // with what making it takes; see Sending
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
}

func (e *endpoint) close() {
	if e.server != nil {
		e.server.Close()
	}
	*e = endpoint{}
}

// removeStale removes a socket that a killed daemon left behind, and nothing
// else.
func removeStale(network, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is no socket", path)
	}
	c, err := net.DialTimeout(network, path, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("another program answers on %s", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// serve answers on the addresses of the configuration from now on.
func (d *Daemon) serve(c *config.Config) error {
	before, on := d.endpoint.address, c.On()
	err := d.endpoint.move("metrics.listen", c.Metrics.Listen, d.handler(), Listen, d.Log)
	if err == nil && d.Pages != nil {
		err = d.pages.move("web.listen", c.Web.Listen, d.Pages(c, d.health.state), Listen, d.Log)
		if err != nil && before != d.endpoint.address {
			err = errors.Join(err, d.endpoint.move("metrics.listen", before, d.handler(), Listen, d.Log))
		}
	}
	if err != nil {
		return err
	}
	d.health.note(func(h *health) { h.said.On = on })
	if d.OwnJobs != nil {
		address := c.OwnJobsSocket()
		if address != "" {
			address = "unix:" + address
		}
		if err := d.ownJobs.move("explain", address, d.users(d.OwnJobs(c)), listenOwn, d.Log); err != nil { // no reason not to work
			d.Log.Warn("users cannot ask about their own jobs", "error", err)
		}
	}
	return nil
}

// handler answers what the endpoint of metrics is asked.
func (d *Daemon) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "priod %s\n\n/metrics  for Prometheus\n/health   one JSON object: 200 healthy, 503 not\n", d.Version)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.metrics.registry, promhttp.HandlerOpts{
		Registry: d.metrics.registry, MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	}))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { tell(w, d.health.state()) })
	return mux
}

// tell answers with the daemon's state.
func tell(w http.ResponseWriter, state State) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if !state.Healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(state) // fails when the asker has gone
}

// users answers users of this host: about their own jobs, and with the daemon's state, without words of Slurm's
// or of operators for those who may not read the state folder.
func (d *Daemon) users(ownJobs http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // each connection is one question
		ownJobs.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		state := d.health.state()
		if uid, known := Asker(r.Context()); !known || !slices.Contains(trusted(state.Dir), uid) {
			state.Trouble, state.Hold, state.Loss = "", "", ""
		}
		tell(w, state)
	})
	return mux
}
