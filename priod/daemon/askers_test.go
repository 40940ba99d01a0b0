package daemon

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// The kernel names the user at the other end of a loopback address and of a socket.
func TestAskerOfEachAddress(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "unix:" + filepath.Join(t.TempDir(), "s")} {
		l, err := Listen(address)
		if err != nil {
			if strings.HasPrefix(address, "[") {
				continue // a host without IPv6
			}
			t.Fatal(err)
		}
		server := Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			uid, known := Asker(r.Context())
			fmt.Fprint(w, uid, known)
		}), hclog.NewNullLogger())
		go func() { _ = server.Serve(l) }()
		if said := fetch(t, l.Addr(), "localhost", "/"); !strings.HasSuffix(said, fmt.Sprint(os.Getuid(), true)) {
			t.Errorf("%s: asked by %q", address, said)
		}
		server.Close()
	}
}

// fetch asks under a name of the host; the answer begins with its status.
func fetch(t *testing.T, address net.Addr, host, path string) string {
	t.Helper()
	c, err := net.Dial(address.Network(), address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host)
	text, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(string(text), "HTTP/1.1 ")
}

// A page of another site that has a browser look up its own name as 127.0.0.1 reads no metrics either; a socket has no such pages.
func TestNamesOfOtherHosts(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	turn(t, d)
	for _, address := range []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "s")} {
		l, err := Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		server := Server(d.handler(), hclog.NewNullLogger())
		go func() { _ = server.Serve(l) }()
		for _, path := range []string{"/", "/metrics", "/health", "/nothing"} {
			refused := strings.HasPrefix(fetch(t, l.Addr(), "evil.example", path), "421 ")
			if want := l.Addr().Network() == "tcp"; refused != want {
				t.Errorf("%s %s: refused: %t", address, path, refused)
			}
			if said := fetch(t, l.Addr(), "127.0.0.1:9817", path); strings.HasPrefix(said, "421 ") {
				t.Errorf("%s %s under its own name: %s", address, path, said)
			}
		}
		server.Close()
	}
}

// Connections beyond a user's limit are closed at once, and give their places back when they end.
func TestOpenConnections(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := l.(*askers)
	a.one = 3
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var open []net.Conn
	for range a.one {
		dial()
		open = append(open, <-accepted)
	}
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a connection beyond the limit was let in")
	}
	open[0].Close()
	dial()
	(<-accepted).Close()
}
