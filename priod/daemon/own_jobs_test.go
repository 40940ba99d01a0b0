package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A user who opens many connections and says nothing takes few files from the daemon: what is beyond the limit is
// closed at once, and another user's limit stays. A question is answered under the name that the kernel knows.
func TestFloodOfQuestions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "explain")
	var o endpoint
	err := o.move("explain", "unix:"+path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		uid, _ := Asker(r.Context())
		_, _ = w.Write([]byte(strconv.Itoa(int(uid))))
	}), listenOwn, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	var silent []net.Conn
	closed := 0
	for range 10 * askedByOne {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	for deadline := time.Now().Add(5 * time.Minute); closed < 9*askedByOne && time.Now().Before(deadline); {
		closed = 0
		for _, c := range silent {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				closed++
			}
		}
	}
	if closed != 9*askedByOne {
		t.Errorf("%d of %d connections were closed, want %d", closed, len(silent), 9*askedByOne)
	}
	for _, c := range silent {
		c.Close()
	}
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	said := ""
	for begun := time.Now(); said == "" && time.Since(begun) < 5*time.Minute; { // until the server has seen that they are gone
		var answer *http.Response
		if answer, err = client.Get("http://priod/explain"); err == nil {
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			said = string(text)
		}
	}
	if said != strconv.Itoa(os.Getuid()) {
		t.Errorf("it was asked by user %q: %v", said, err)
	}
}

// Of all users together so many, and those who leave make room.
func TestAskers(t *testing.T) {
	var a Seats[uint32]
	for uid := range uint32(askedByAll) {
		if !a.Take(uid, askedByOne, askedByAll) {
			t.Fatalf("user %d is refused", uid)
		}
	}
	if a.Take(1000, askedByOne, askedByAll) {
		t.Error("more than all were let in")
	}
	a.Leave(7)
	if !a.Take(1000, askedByOne, askedByAll) || len(a.of) != askedByAll {
		t.Errorf("one left and another was refused: %v", a.of)
	}
}
