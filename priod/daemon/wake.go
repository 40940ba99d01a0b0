package daemon

import (
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug/wake"
)

const (
	// submitTime is how long a submission may take from its call until Slurm has it:
	// sbatchwrap calls before it becomes sbatch.
	submitTime = 500 * time.Millisecond
	// lookAgain is the time to the second look for a job that the first one did not
	// find, or found not yet eligible (batch_sched_delay is 3 s by default). It
	// doubles each time.
	lookAgain = 2 * time.Second
	maxLooks  = 4
	// maxCallers bounds the memory that calls take between two polls.
	maxCallers = 1000
	// readPause bounds the work that a flood of datagrams makes.
	readPause = time.Millisecond
)

// calls decide when the call of a TE submission brings the next poll forward.
// Any user may call, so what calls cause is bounded: for all together, and for
// each caller by half of that.
type calls struct {
	perMinute int // early polls within any minute
	waiting   map[string]call
	early     []earlyPoll // those of the last minute, oldest first
}

// call is what one caller waits for.
type call struct {
	first, last time.Time // datagrams of his that no poll has answered
	due         time.Time // of the next look
	looks       int       // polls since that did not find a job
}

type earlyPoll struct {
	at time.Time
	by []string // callers whose share it counts against
}

// add takes in a datagram.
func (c *calls) add(caller string, at time.Time) {
	w, known := c.waiting[caller]
	switch {
	case known:
		w.last = at
	case len(c.waiting) == maxCallers:
		return // the next poll without a call finds his job
	default:
		w = call{first: at, last: at, due: at.Add(submitTime)}
	}
	if c.waiting == nil {
		c.waiting = map[string]call{}
	}
	c.waiting[caller] = w
}

// next is when the next early poll is wanted; zero when no call is open.
func (c *calls) next() (at time.Time) {
	for caller, w := range c.waiting {
		if when := c.allowed(caller, w.due); at.IsZero() || when.Before(at) {
			at = when
		}
	}
	return at
}

// allowed is the first time from due on at which the caller may cause a poll.
func (c *calls) allowed(caller string, due time.Time) time.Time {
	var all, own []time.Time
	for _, p := range c.early {
		all = append(all, p.at)
		if slices.Contains(p.by, caller) {
			own = append(own, p.at)
		}
	}
	for _, share := range []struct {
		polls []time.Time
		most  int
	}{{all, c.perMinute}, {own, max(1, c.perMinute/2)}} {
		if n := len(share.polls) - share.most; n >= 0 && share.polls[n].Add(time.Minute).After(due) {
			due = share.polls[n].Add(time.Minute)
		}
	}
	return due
}

// polled takes in that a poll began, early because of calls or not. seen tells
// whether it found a TE job submitted since a time.
func (c *calls) polled(at time.Time, early bool, seen func(since time.Time) bool) {
	var by []string
	for caller, w := range c.waiting {
		if w.due.After(at) {
			continue
		}
		if !c.allowed(caller, w.due).After(at) {
			by = append(by, caller)
		}
		switch w.looks++; {
		case w.last.Add(submitTime).After(at): // that job may come after this poll
			c.waiting[caller] = call{first: w.last, last: w.last, due: w.last.Add(submitTime)}
		case w.looks == maxLooks || seen(w.first):
			delete(c.waiting, caller)
		default:
			w.due = at.Add(lookAgain << (w.looks - 1))
			c.waiting[caller] = w
		}
	}
	if early {
		c.early = append(c.early, earlyPoll{at, by})
	}
	c.early = slices.DeleteFunc(c.early, func(p earlyPoll) bool { return at.Sub(p.at) >= time.Minute })
}

// found reports whether a cycle saw a TE job submitted since a time, and could
// rank it.
func found(r *cycle.Result, since time.Time) bool {
	since = since.Truncate(time.Second) // as Slurm tells times
	early := map[cluster.JobID]bool{}
	for i := range r.Plan.Decisions {
		if d := &r.Plan.Decisions[i]; d.Why == string(plan.NotYet) {
			early[d.Job] = true
		}
	}
	return slices.ContainsFunc(r.Snapshot.Jobs, func(j cluster.Job) bool {
		return j.Tag.Type == "te" && !j.Submit.Before(since) && !early[j.ID]
	})
}

// wakeListener listens for calls; the zero value hears none.
type wakeListener struct {
	called chan struct{} // a call came

	mu    sync.Mutex
	calls calls
	open  map[wake.Address]net.Conn
}

// listen takes calls at the addresses from now on, and at no others. An address that
// cannot be opened is no reason not to work: the poll finds every job.
func (l *wakeListener) listen(addresses []wake.Address, perMinute int, log hclog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.called == nil {
		l.called, l.open = make(chan struct{}, 1), map[wake.Address]net.Conn{}
	}
	l.calls.perMinute = perMinute
	for a := range l.open {
		if !slices.Contains(addresses, a) {
			l.shut(a)
		}
	}
	for _, a := range addresses {
		if l.open[a] != nil {
			continue
		}
		c, err := openWakeSocket(a)
		if err != nil {
			log.Warn("TE submissions do not trigger a poll there; they wait for the next one", "wake", a, "error", err)
			continue
		}
		log.Info("TE submissions wake priod", "wake", a)
		l.open[a] = c
		go l.receive(c)
	}
}

// close ends all listening.
func (l *wakeListener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := range l.open {
		l.shut(a)
	}
}

func (l *wakeListener) shut(a wake.Address) {
	if a.Path != "" {
		_ = os.Remove(a.Path)
	}
	_ = l.open[a].Close()
	delete(l.open, a)
}

// openWakeSocket opens a socket that every user may write to.
func openWakeSocket(a wake.Address) (net.Conn, error) {
	if a.Path == "" {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(a.UDP))
	}
	if err := removeStale("unixgram", a.Path); err != nil {
		return nil, err
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: a.Path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err == nil {
		var told error
		err = raw.Control(func(fd uintptr) { told = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
		err = errors.Join(err, told, os.Chmod(a.Path, 0o666))
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// receive takes in calls until the socket is closed. What they say is not read.
func (l *wakeListener) receive(c net.Conn) {
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for {
		caller, err := "network", error(nil) // its senders cannot be distinguished
		switch c := c.(type) {
		case *net.UnixConn:
			var n int
			if _, n, _, _, err = c.ReadMsgUnix(data, oob); err == nil {
				caller = sender(oob[:n])
			}
		default:
			_, err = c.Read(data)
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			l.mu.Lock()
			l.calls.add(caller, time.Now())
			l.mu.Unlock()
			select {
			case l.called <- struct{}{}:
			default:
			}
		}
		time.Sleep(readPause)
	}
}

// sender is the user whom the kernel names in a message.
func sender(oob []byte) string {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err == nil && len(messages) == 1 {
		if cred, err := unix.ParseUnixCredentials(&messages[0]); err == nil {
			return strconv.FormatUint(uint64(cred.Uid), 10)
		}
	}
	return "unknown"
}

func (l *wakeListener) next() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls.next()
}

func (l *wakeListener) polled(at time.Time, early bool, r *cycle.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls.polled(at, early, func(since time.Time) bool { return found(r, since) })
}
