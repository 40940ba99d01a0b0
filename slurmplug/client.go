package slurmplug

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Options tune a Client. A zero field means its default.
type Options struct {
	ReadTimeout  time.Duration // for one command that reads; 60 s
	WriteTimeout time.Duration // for one command that writes; 60 s

	Abilities *Abilities // what the installed commands can do; nil: they are asked

	// Writing. A call that updates an array by its tasks counts once.
	WritesPerSecond float64       // on average
	Burst           int           // updates without waiting; a second's worth
	MaxWait         time.Duration // how long one Update may wait for its turn; 10 s
	AgentQueue      int           // writing pauses above this "Agent queue size"; 200
	DBDQueue        int           // writing pauses above this "DBD Agent queue size"; 5000
}

// Constants are the options that no site changes.
var Constants = Options{
	ReadTimeout: time.Minute, WriteTimeout: time.Minute, // a busy slurmctld answers within a minute or not at all
	AgentQueue: 200, DBDQueue: 5000,
	WritesPerSecond: 500, // of a cycle, on average; rl_enable of slurm.conf holds, too
}

func (o Options) filled() Options {
	o.ReadTimeout = cmp.Or(o.ReadTimeout, Constants.ReadTimeout)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, Constants.WriteTimeout)
	o.WritesPerSecond = cmp.Or(o.WritesPerSecond, Constants.WritesPerSecond)
	o.Burst = cmp.Or(o.Burst, max(1, int(o.WritesPerSecond)))
	o.MaxWait = cmp.Or(o.MaxWait, 10*time.Second)
	o.AgentQueue = cmp.Or(o.AgentQueue, Constants.AgentQueue)
	o.DBDQueue = cmp.Or(o.DBDQueue, Constants.DBDQueue)
	return o
}

// Client reads and writes one cluster. Its methods may be called from several
// goroutines; two calls of Update wait for each other.
//
// A read that returns an error returns nothing else. The errors say which
// command, what was wrong and where: a *CommandError for a program that failed
// (errors.Is tells ErrNotFound, ErrTimeout, ErrController, ... apart), ErrDoubtful
// for output that is inconsistent.
type Client struct {
	runner Runner
	opts   Options
	nonce  func() separators

	mu        sync.Mutex
	lastJobs  int        // records that the last trusted Jobs returned
	abilities *Abilities // nil until asked
	metrics   string     // address of slurmctld's metrics, "" for sdiag
	unread    []unreadSince

	writing   sync.Mutex
	pace      pace
	budget    budget
	unindexed unindexed // by writing
}

// NewClient returns a Client that runs Slurm's programs by r.
func NewClient(r Runner, o Options) *Client {
	o = o.filled()
	return &Client{
		runner:    r,
		opts:      o,
		nonce:     newSeparators,
		pace:      newPace(o.WritesPerSecond, o.Burst),
		unindexed: unindexed{},
	}
}

// ErrDoubtful is output that is inconsistent: cut off, forged, or at odds
// with itself.
var ErrDoubtful = errors.New("output cannot be trusted")

func doubtful(command, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %w", command, ErrDoubtful, fmt.Errorf(format, args...))
}

// run runs a command with a time limit, which does not count what it waits for its
// turn under slurmctld's rate limit.
func (c *Client) run(ctx context.Context, limit time.Duration, cmd Command) (Output, error) {
	if err := c.budget.take(ctx, cmd.requests()); err != nil {
		return Output{}, &CommandError{Command: commandLine(cmd), Kind: err, Message: "not started", Limit: c.budget.at().String()}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrTimeout)
	defer cancel()
	out, err := c.runner.Run(ctx, cmd)
	var failed *CommandError
	if l := c.budget.at(); l.Holds() && errors.As(err, &failed) && failed.Kind == ErrTimeout {
		failed.Limit = l.String() // others of the account may have used it up
	}
	return out, err
}

// repeats is how often a read that slurmctld refuses for its rate is repeated, after
// 1, 2, 4 ... s.
const repeats = 5

// ask is run for a read.
func (c *Client) ask(ctx context.Context, cmd Command) (out Output, err error) {
	for try := range repeats + 1 {
		out, err = c.run(ctx, c.opts.ReadTimeout, cmd)
		var failed *CommandError
		if !errors.As(err, &failed) || failed.Kind != ErrExit || !errors.Is(err, ErrRate) || try == repeats {
			break
		}
		if sleep(ctx, time.Second<<try) != nil {
			break
		}
	}
	return out, err
}

// read returns what a command printed, if it succeeded and had nothing to
// complain about: squeue, for one, exits 0 after "Invalid job format".
func (c *Client) read(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := c.ask(ctx, Command{Name: name, Args: args})
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out.Stderr) {
		if lower := bytes.ToLower(line); bytes.Contains(lower, []byte("error")) || bytes.Contains(lower, []byte("fatal")) {
			return nil, doubtful(name, "exit status 0, but %q", firstLine(line))
		}
	}
	return out.Stdout, nil
}

// showJob is what scontrol shows of a job; ErrNoJob when slurmctld does not know it.
func (c *Client) showJob(ctx context.Context, id string, options ...string) (string, error) {
	out, err := c.readLines(ctx, "scontrol", append(options, "--oneliner", "show", "job", id)...)
	if isNoJob(err) {
		err = ErrNoJob
	}
	return string(out), err
}

// query is what a command's lines say.
func query[Text string | []byte, T any](ctx context.Context, c *Client, parse func(Text) (T, error), name string, args ...string) (none T, err error) {
	out, err := c.readLines(ctx, name, args...)
	if err != nil {
		return none, err
	}
	return parse(Text(out))
}

// readLines is read for output that is lines: each must have its end.
func (c *Client) readLines(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := c.read(ctx, name, args...)
	if err == nil && len(out) > 0 && out[len(out)-1] != '\n' {
		return nil, doubtful(name, "cut off at %q", out[max(0, len(out)-40):])
	}
	return out, err
}
