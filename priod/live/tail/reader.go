package tail

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

const (
	// patience is how long a child may take, by the parent's clock: then it is killed.
	patience = 10 * time.Second
	// penalty is how long nothing is read for a user whose child took longer.
	penalty = 10 * time.Minute
	// maxAtOnce children read at once, one for each user.
	maxAtOnce = 8
	// maxHanging children may outlive their SIGKILL in a file system that hangs; then nothing is read until one ends.
	maxHanging = 64
	// keep is how long what was read waits for its cycle.
	keep = time.Hour
)

// Run is a run of a job.
type Run struct {
	Job      cluster.JobID
	Began    time.Time
	Restarts int
}

// Reader reads output beside the cycles, for each user one file after the other.
type Reader struct {
	mu      sync.Mutex
	runs    map[Run]*Reading
	users   map[uint32]*reads
	slots   chan struct{} // of children at once
	hanging int           // children that were killed and have not ended

	// started, a test's, says how long a child may take. It is called before that time begins and the child has its request.
	started func(uid uint32, pid int) time.Duration
}

// reads are those of a user.
type reads struct {
	turn  chan struct{} // who holds it has a child
	until time.Time     // none before: a child took too long
	hangs bool          // and has not ended
}

// Reading is one read. Its fields stand once Done is closed.
type Reading struct {
	Done chan struct{}
	Text []byte
	End  plan.Mark
	Err  error
	at   time.Time
}

// Failed is one that could not be begun.
func Failed(err error) *Reading {
	x := &Reading{Done: make(chan struct{}), Err: err}
	close(x.Done)
	return x
}

// NewReader makes one that has read nothing.
func NewReader() *Reader {
	return &Reader{runs: map[Run]*Reading{}, users: map[uint32]*reads{}, slots: make(chan struct{}, maxAtOnce)}
}

// Of returns the read of a run's output that was begun; nil: none was.
func (r *Reader) Of(run Run) *Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[run]
}

// Begin begins to read what a run wrote, as its user, and does not wait. Only root can become others.
func (r *Reader) Begin(run Run, uid uint32, what Request) *Reading {
	x := &Reading{Done: make(chan struct{}), at: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.runs, func(_ Run, old *Reading) bool { return x.at.Sub(old.at) > keep })
	r.runs[run] = x
	go func() {
		defer close(x.Done)
		x.Text, x.End, x.Err = r.read(uid, what)
	}()
	return x
}

// read waits for the user's turn and reads.
func (r *Reader) read(uid uint32, what Request) (text []byte, end plan.Mark, err error) {
	switch {
	case uid == 0:
		return nil, end, errors.New("root's own output is not read")
	case os.Geteuid() != 0 && uint32(os.Geteuid()) != uid:
		return nil, end, fmt.Errorf("priod's account cannot become uid %d: only root can", uid)
	}
	u := r.of(uid)
	u.turn <- struct{}{}
	defer func() { <-u.turn }()
	if err := r.refused(u); err != nil {
		return nil, end, err
	}
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	said, err := r.child(u, uid, what)
	if err != nil {
		return nil, end, err
	}
	first, text, _ := bytes.Cut(said, []byte{'\n'})
	if err := json.Unmarshal(first, &end); err != nil || end.Bytes < 0 {
		return nil, plan.Mark{}, errors.New("what reads it said nothing of use")
	}
	return text, end, nil
}

func (r *Reader) of(uid uint32) *reads {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[uid] == nil {
		r.users[uid] = &reads{turn: make(chan struct{}, 1)}
	}
	return r.users[uid]
}

// refused says why nothing is read for a user now.
func (r *Reader) refused(u *reads) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case u.hangs:
		return errors.New("an earlier read of this user's output hangs in a file system")
	case time.Now().Before(u.until):
		return fmt.Errorf("an earlier read of this user's output took more than %v: none for %v", patience, penalty)
	case r.hanging >= maxHanging:
		return errors.New("too many reads of output hang in a file system")
	}
	return nil
}

// child runs priod again, as a user, and gives what it wrote: a mark, and the text. After patience it is
// killed, and its pipes are closed even where another process holds them.
func (r *Reader) child(u *reads, uid uint32, what Request) ([]byte, error) {
	asked, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, kill := context.WithCancelCause(context.Background())
	defer kill(nil)
	c := exec.CommandContext(ctx, self, Verb)
	c.Env, c.Dir = []string{}, "/"
	out, said := &bounded{left: Most + maxMark}, &bounded{left: 200}
	c.Stdout, c.Stderr = out, said
	c.WaitDelay = time.Second
	if os.Geteuid() == 0 {
		ids, err := idsOf(uid)
		if err != nil {
			return nil, err
		}
		c.Args = append(c.Args, ids...)
	}
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("read as uid %d: %w", uid, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	most := patience
	if r.started != nil {
		most = r.started(uid, c.Process.Pid)
	}
	late := fmt.Errorf("it took more than %v", most)
	timer := time.AfterFunc(most, func() { kill(late) })
	defer timer.Stop()
	_, _ = in.Write(asked) // a pipe takes 64 KiB at once
	_ = in.Close()
	select {
	case err = <-ended:
	case <-time.After(most + 2*c.WaitDelay):
		r.hang(u, ended)
		return nil, fmt.Errorf("%w, and what reads it does not end: a file system hangs", late)
	}
	switch {
	case ctx.Err() != nil:
		r.punish(u)
		return nil, late
	case err != nil && len(said.Bytes()) > 0:
		return nil, fmt.Errorf("%s", bytes.TrimSpace(said.Bytes()))
	case err != nil:
		return nil, err
	}
	return out.Bytes(), nil
}

// punish lets nothing be read for a user for some time.
func (r *Reader) punish(u *reads) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.until = time.Now().Add(penalty)
}

// hang notes a child that does not end, until it does.
func (r *Reader) hang(u *reads, ended <-chan error) {
	r.punish(u)
	note := func(hangs bool, more int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		u.hangs = hangs
		r.hanging += more
	}
	note(true, 1)
	go func() {
		<-ended
		note(false, -1)
	}()
}

// idsOf are the numbers of a user, of its group and of all its groups.
func idsOf(uid uint32) ([]string, error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil, err
	}
	groups, _ := u.GroupIds()
	return append([]string{u.Uid, u.Gid}, groups...), nil
}

// bounded keeps what is written to it up to a number of bytes.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.Buffer.Write(p[:n])
	return len(p), nil
}
