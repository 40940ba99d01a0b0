package daemon

import (
	"net/http"
	"os"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
)

// ownJobs answers users who ask about their own jobs, on a socket that every user of this host may open; the zero
// value answers no request.
type ownJobs struct {
	path    string
	server  *http.Server
	answers *atomic.Pointer[http.Handler] // of the server
}

// How many connections are open at a time, of one user and in all.
const (
	askedByOne = 4
	askedByAll = 64
)

// move answers with h at the path from now on; "": nowhere. A path that cannot be opened is no reason not to work.
func (o *ownJobs) move(path string, h http.Handler, log hclog.Logger) {
	if path == o.path {
		if o.answers != nil {
			o.answers.Store(&h)
		}
		return
	}
	o.close()
	if path == "" {
		return
	}
	l, err := listen("unix:" + path)
	if err == nil {
		if err = os.Chmod(path, 0o666); err != nil {
			l.Close()
		}
	}
	if err != nil {
		log.Warn("users cannot ask about their own jobs", "socket", path, "error", err)
		return
	}
	current, serve := replaceable(h)
	server := Server(serve, log)
	server.SetKeepAlivesEnabled(false) // each connection is one question
	o.path, o.server, o.answers = path, server, current
	go func() { _ = server.Serve(&askers{Listener: l, one: askedByOne, all: askedByAll, named: true}) }() // ends with close
	log.Info("users may ask about their own jobs", "socket", path)
}

func (o *ownJobs) close() {
	if o.server != nil {
		o.server.Close()
	}
	*o = ownJobs{}
}
