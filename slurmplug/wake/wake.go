// Package wake is the datagram by which a submission tells priod that a
// trial-and-error job is on its way. It is empty: the receiver learns only
// that a job is coming, and polls. It may get lost.
package wake

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Default is where priod listens and sbatchwrap calls unless they are told
// otherwise.
const Default = "unix:/run/priod/wake"

// PollsPerMinute is how many early polls TE submissions cause in a minute, at most half of them by one user (docs/reference/wake.md).
const PollsPerMinute = 20

// maxPath is what fits into sun_path of unix(7), with its closing zero.
const maxPath = 107

// Address is where the datagram goes. One of the two is set.
type Address struct {
	Path string         // a unix datagram socket of this host
	UDP  netip.AddrPort // another host, or loopback
}

func (a Address) String() string {
	if a.Path != "" {
		return "unix:" + a.Path
	}
	return "udp:" + a.UDP.String()
}

// Parse reads "unix:/absolute/path" or "udp:ADDRESS:PORT". Names of hosts are
// no addresses: to resolve one could take seconds.
func Parse(s string) (Address, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok && filepath.IsAbs(path) && len(path) <= maxPath && !strings.ContainsRune(path, 0) {
		return Address{Path: path}, nil
	}
	if text, ok := strings.CutPrefix(s, "udp:"); ok {
		if a, err := netip.ParseAddrPort(text); err == nil && a.Port() != 0 && a.Addr().Zone() == "" {
			return Address{UDP: netip.AddrPortFrom(a.Addr().Unmap(), a.Port())}, nil
		}
	}
	return Address{}, fmt.Errorf("%q: want unix:/absolute/path or udp:ADDRESS:PORT with an address in numbers", s)
}

// Send sends one datagram without waiting for anything. It does not tell
// whether it was heard.
func (a Address) Send() {
	var family int
	var to unix.Sockaddr
	switch {
	case a.Path != "":
		family, to = unix.AF_UNIX, &unix.SockaddrUnix{Name: a.Path}
	case a.UDP.Addr().Is4():
		family, to = unix.AF_INET, &unix.SockaddrInet4{Addr: a.UDP.Addr().As4(), Port: int(a.UDP.Port())}
	default:
		family, to = unix.AF_INET6, &unix.SockaddrInet6{Addr: a.UDP.Addr().As16(), Port: int(a.UDP.Port())}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = unix.Sendto(fd, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, to)
}
