package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A TE submission calls priod, and nothing else does.
func TestWakeCall(t *testing.T) {
	dir := t.TempDir()
	script := writeFile(t, dir+"/plain.sh", "#!/bin/sh\ntrue\n")
	path := filepath.Join(dir, "wake")
	priod, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer priod.Close()
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	calls := func(c net.Conn, want int) (n int) {
		for {
			patience := 20 * time.Millisecond // for one too many: it went out before the wrapper ended
			if n < want {
				patience = 10 * time.Second
			}
			c.SetReadDeadline(time.Now().Add(patience))
			size, err := c.Read(make([]byte, 10))
			if err != nil {
				return n
			}
			if size > 0 {
				t.Error("the datagram is not empty")
			}
			n++
		}
	}
	wake := "SBATCHWRAP_WAKE=unix:" + path
	for _, c := range []struct {
		name  string
		args  []string
		env   []string
		local int
		udp   int
	}{
		{"te", []string{"--prio-type=te", script}, []string{wake}, 1, 0},
		{"te by a variable", []string{script}, []string{wake, "SBATCHWRAP_TYPE=te"}, 1, 0},
		{"two addresses", []string{"--prio-type=te", script}, []string{wake + " udp:" + udp.LocalAddr().String()}, 1, 1},
		{"one of them is none", []string{"--prio-type=te", script}, []string{"SBATCHWRAP_WAKE=nonsense unix:" + path}, 1, 0},
		{"be", []string{"--prio-type=be", script}, []string{wake}, 0, 0},
		{"no type", []string{"--prio-grace=5", script}, []string{wake}, 0, 0},
		{"nothing said", []string{script}, []string{wake}, 0, 0},
		{"only printed", []string{"--prio-type=te", "--prio-print", script}, []string{wake}, 0, 0},
		{"refused", []string{"--prio-type=te", "--no-such-option", script}, []string{wake}, 0, 0},
	} {
		call{args: c.args, env: c.env}.run(t)
		if local, remote := calls(priod, c.local), calls(udp, c.udp); local != c.local || remote != c.udp {
			t.Errorf("%s: %d local calls and %d by UDP", c.name, local, remote)
		}
	}
}

// Whatever stands at the other end, sbatch gets the same call and the user sees
// the same.
func TestWakeCallChangesNothing(t *testing.T) {
	dir := t.TempDir()
	script := writeFile(t, dir+"/plain.sh", "#!/bin/sh\ntrue\n")
	stream, err := net.Listen("unix", dir+"/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	deaf, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/deaf", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	fill, err := net.Dial("unixgram", dir+"/deaf")
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	fill.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil {
		_, err = fill.Write([]byte("x"))
	}
	writeFile(t, dir+"/file", "")
	if err := os.Symlink(dir+"/loop", dir+"/loop"); err != nil {
		t.Fatal(err)
	}
	c := call{args: []string{"--prio-type=te", script}}
	want := c.run(t)
	if want.record == nil || want.code != 0 {
		t.Fatalf("%+v", want)
	}
	for _, address := range []string{"unix:" + dir + "/none", "unix:" + dir + "/deaf", "unix:" + dir + "/stream", "unix:" + dir + "/file", "unix:" + dir + "/loop", "unix:" + dir,
		"udp:127.0.0.1:9", "udp:255.255.255.255:9", "udp:[2001:db8::1]:9", "nonsense"} {
		c.env = []string{"SBATCHWRAP_WAKE=" + address}
		got := c.run(t)
		if got.record == nil || got.code != 0 || got.stderr != want.stderr || !cmp.Equal(got.record.Args, want.record.Args) || got.record.Three != want.record.Three || got.record.Pid != got.pid {
			t.Errorf("%s: %+v", address, got)
		}
	}
}
