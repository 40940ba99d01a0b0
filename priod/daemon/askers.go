package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

type askerKey struct{}

// Asker is the user at the other end of the connection that a request came by, as the kernel says.
func Asker(ctx context.Context) (uid uint32, known bool) {
	uid, known = ctx.Value(askerKey{}).(uint32)
	return uid, known
}

// askers accepts connections within the limits: one beyond is closed at once, so that a user who opens many takes few
// files from the daemon, and no answer from others.
type askers struct {
	net.Listener
	one, all int  // connections at a time, of a user and in all
	named    bool // a connection whose user is not known is closed, too; else such users are one
	open     Seats[uint32]
}

// asker is a connection and its user.
type asker struct {
	net.Conn
	uid   uint32
	known bool
	left  func() // once
}

// Accept returns an *asker.
func (a *askers) Accept() (net.Conn, error) {
	for {
		c, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peer(c)
		if (err == nil || !a.named) && a.open.Take(uid, a.one, a.all) {
			return &asker{c, uid, err == nil, sync.OnceFunc(func() { a.open.Leave(uid) })}, nil
		}
		_ = c.Close()
	}
}

func (c *asker) Close() error {
	c.left()
	return c.Conn.Close()
}

// WithAsker says who asks.
func WithAsker(ctx context.Context, uid uint32) context.Context {
	return context.WithValue(ctx, askerKey{}, uid)
}

// ofConn is the ConnContext of a server.
func ofConn(ctx context.Context, c net.Conn) context.Context {
	if a, ok := c.(*asker); ok && a.known {
		return WithAsker(ctx, a.uid)
	}
	return ctx
}

// Seats counts what each of K has open.
type Seats[K comparable] struct {
	mu  sync.Mutex
	of  map[K]int
	all int
}

// Take reports whether k may have one more: at most one each, and all in all.
func (s *Seats[K]) Take(k K, one, all int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= all || s.of[k] >= one {
		return false
	}
	if s.of == nil {
		s.of = map[K]int{}
	}
	s.all++
	s.of[k]++
	return true
}

// Leave takes back one Take.
func (s *Seats[K]) Leave(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[k]--; s.of[k] == 0 {
		delete(s.of, k)
	}
}

// peer is the user who opened the other end; on error no user.
func peer(c net.Conn) (uint32, error) {
	const none = ^uint32(0)
	switch c := c.(type) {
	case *net.UnixConn:
		cred, err := credentials(c)
		if err != nil {
			return none, err
		}
		return cred.Uid, nil
	case *net.TCPConn:
		uid, err := tcpUser(c.RemoteAddr().(*net.TCPAddr), c.LocalAddr().(*net.TCPAddr))
		if err != nil {
			return none, err
		}
		return uid, nil
	}
	return none, net.UnknownNetworkError(c.LocalAddr().Network())
}

// credentials are those of the process at the other end: SO_PEERCRED of unix(7).
func credentials(c *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var told error
	err = raw.Control(func(fd uintptr) { cred, told = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return cred, errors.Join(err, told)
}

// tcpUser is the user of this host whose TCP socket has these addresses, see sock_diag(7).
func tcpUser(local, remote *net.TCPAddr) (uint32, error) {
	const (
		byFamily = 20 // SOCK_DIAG_BY_FAMILY
		head     = unix.SizeofNlMsghdr
	)
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(s)
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return 0, err
	}
	ask := make([]byte, head+56) // nlmsghdr, inet_diag_req_v2
	binary.NativeEndian.PutUint32(ask, uint32(len(ask)))
	binary.NativeEndian.PutUint16(ask[4:], byFamily)
	binary.NativeEndian.PutUint16(ask[6:], unix.NLM_F_REQUEST)
	family, from, to := byte(unix.AF_INET6), local.IP.To16(), remote.IP.To16()
	if local.IP.To4() != nil {
		family, from, to = unix.AF_INET, local.IP.To4(), remote.IP.To4()
	}
	req := ask[head:]
	req[0], req[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(req[4:], ^uint32(0)) // of any state
	binary.BigEndian.PutUint16(req[8:], uint16(local.Port))
	binary.BigEndian.PutUint16(req[10:], uint16(remote.Port))
	copy(req[12:], from)
	copy(req[28:], to)
	binary.NativeEndian.PutUint64(req[48:], ^uint64(0)) // INET_DIAG_NOCOOKIE
	if err := unix.Sendto(s, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 1024)
	n, _, err := unix.Recvfrom(s, answer, 0)
	const uidAt = head + 64 // in nlmsghdr, inet_diag_msg
	if err != nil || n < uidAt+4 || binary.NativeEndian.Uint16(answer[4:]) != byFamily {
		return 0, fmt.Errorf("no socket has these addresses (%w)", err)
	}
	return binary.NativeEndian.Uint32(answer[uidAt:]), nil
}

// InTurn makes an answer in its turn, and gives the turn back before the answer is sent: who reads slowly holds a connection
// and nothing else. False: the time is over, or the asker has gone.
func InTurn(r *http.Request, turns chan struct{}, patience time.Duration, answer func()) bool {
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
		answer()
		return true
	case <-wait.C:
	case <-r.Context().Done():
	}
	return false
}

// sendFor is how long an answer may take to be read.
const sendFor = 30 * time.Second

// Sending gives the asker the whole time for reading, however long the answer took.
func Sending(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendFor)) // a test's recorder has none
}

// ownNames refuses other names of this host than its own, so that no page of another site can have a browser read what is
// answered here (DNS rebinding). On a unix socket there is no browser.
func ownNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "tcp" && !loopback(r.Host) {
			http.Error(w, "ask for this host by 127.0.0.1, [::1] or localhost; a proxy has to set the header Host to that", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Listen opens a loopback address or, after "unix:", a socket that its owner
// and group may use.
func Listen(address string) (net.Listener, error) {
	l, err := listen(address)
	if err != nil {
		return nil, err
	}
	return &askers{Listener: l, one: openByOne, all: openByAll}, nil
}

// listenOwn opens a socket on which each user of this host may ask about the own jobs.
func listenOwn(address string) (net.Listener, error) {
	l, err := listen(address)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(strings.TrimPrefix(address, "unix:"), 0o666); err != nil {
		l.Close()
		return nil, err
	}
	return &askers{Listener: l, one: askedByOne, all: askedByAll, named: true}, nil
}

// How many connections to metrics or pages are open at a time: 256 live pages through the site's proxy, which is one user, among them.
const (
	openByOne = 320
	openByAll = 1024

	askedByOne = 4 // about own jobs
	askedByAll = 64
)

func listen(address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		return net.Listen("tcp", address)
	}
	if err := removeStale("unix", path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
