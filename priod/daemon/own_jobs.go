package daemon

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// ownJobs answers users who ask about their own jobs, on a socket that every user of this host may open; the zero
// value answers no request.
type ownJobs struct {
	path    string
	server  *http.Server
	answers *atomic.Pointer[http.Handler] // of the server
}

// How many connections are open at a time, of one user and in all. One beyond is closed at once: a user who opens many
// takes few files from the daemon, and no answer from others.
const (
	askedByOne = 4
	askedByAll = 64
)

type askerKey struct{}

// Asker is the user at the other end of the socket that a request came by, as the kernel says.
func Asker(ctx context.Context) (uid uint32, known bool) {
	uid, known = ctx.Value(askerKey{}).(uint32)
	return uid, known
}

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
	l, err := Listen("unix:" + path)
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
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, askerKey{}, c.(*asker).uid)
	}
	o.path, o.server, o.answers = path, server, current
	go func() { _ = server.Serve(&askers{Listener: l, open: map[uint32]int{}}) }() // ends with close
	log.Info("users may ask about their own jobs", "socket", path)
}

// askers accepts connections within the limits.
type askers struct {
	net.Listener
	mu   sync.Mutex
	open map[uint32]int // by user
	all  int
}

// asker is a connection of a user whom the kernel knows.
type asker struct {
	net.Conn
	uid  uint32
	left func() // once
}

// Accept returns an *asker.
func (a *askers) Accept() (net.Conn, error) {
	for {
		c, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peer(c)
		if err == nil && a.enter(uid) {
			return &asker{c, uid, sync.OnceFunc(func() { a.leave(uid) })}, nil
		}
		_ = c.Close()
	}
}

func (a *askers) enter(uid uint32) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all >= askedByAll || a.open[uid] >= askedByOne {
		return false
	}
	a.all++
	a.open[uid]++
	return true
}

func (a *askers) leave(uid uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all--
	if a.open[uid]--; a.open[uid] == 0 {
		delete(a.open, uid)
	}
}

func (c *asker) Close() error {
	c.left()
	return c.Conn.Close()
}

// peer is the user who opened the other end, see SO_PEERCRED of unix(7).
func peer(c net.Conn) (uint32, error) {
	local, ok := c.(*net.UnixConn)
	if !ok {
		return 0, net.UnknownNetworkError(c.LocalAddr().Network())
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var told error
	if err := raw.Control(func(fd uintptr) { cred, told = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if told != nil {
		return 0, told
	}
	return cred.Uid, nil
}

func (o *ownJobs) close() {
	if o.server != nil {
		o.server.Close()
	}
	*o = ownJobs{}
}
