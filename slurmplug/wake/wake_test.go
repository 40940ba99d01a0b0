package wake

import (
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Address{
		Default:                             {Path: "/run/priod/wake"},
		"unix:/" + strings.Repeat("a", 106): {Path: "/" + strings.Repeat("a", 106)},
		"udp:127.0.0.1:9818":                {UDP: netip.MustParseAddrPort("127.0.0.1:9818")},
		"udp:[::1]:9818":                    {UDP: netip.MustParseAddrPort("[::1]:9818")},
		"udp:[::ffff:10.0.0.1]:9818":        {UDP: netip.MustParseAddrPort("10.0.0.1:9818")},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "/run/priod/wake", "unix:", "unix:wake", "unix:@abstract", "unix:/a\x00b", "unix:/" + strings.Repeat("a", 107),
		"udp:localhost:9818", "udp:127.0.0.1", "udp:127.0.0.1:0", "udp::9818", "udp:[fe80::1%eth0]:9818", "tcp:127.0.0.1:9818",
	} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "want unix:") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestStringIsParsedBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`unix:/[ -~]{0,120}`), rapid.StringMatching(`udp:[0-9]{1,3}(\.[0-9]{1,3}){3}:[0-9]{1,5}`), rapid.String()).Draw(t, "text")
		a, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(a.String()); err != nil || again != a {
			t.Fatalf("%q is %v, whose text is %v, %v", text, a, again, err)
		}
	})
}

func TestSendArrives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wake")
	local, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for address, conn := range map[string]net.Conn{"unix:" + path: local, "udp:" + udp.LocalAddr().String(): udp} {
		a, err := Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		a.Send()
		conn.SetReadDeadline(time.Now().Add(5 * time.Minute))
		if n, err := conn.Read(make([]byte, 10)); n != 0 || err != nil {
			t.Errorf("%s: %d bytes, %v", address, n, err)
		}
	}
}

// Nobody there, nobody reading, no right: Send returns all the same.
func TestSendWithoutListenerReturns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "deaf")
	deaf, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	done := make(chan bool)
	go func() {
		defer close(done)
		for _, a := range []Address{{Path: path}, {Path: dir + "/nobody"}, {Path: dir}, {UDP: netip.MustParseAddrPort("127.0.0.1:9")}, {UDP: netip.MustParseAddrPort("[::1]:9")}, {}} {
			for range 2000 { // more than any queue holds
				a.Send()
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		t.Fatal("Send waits")
	}
}
