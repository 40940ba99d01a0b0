package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/slurmplug/wake"
)

// What a verb asks the daemon, by HTTP: how it is, and for users who may not read the state folder, about their own jobs.

// errUnasked says that the configuration names no address at which a daemon would say how it is.
var errUnasked = errors.New("neither wake.listen nor metrics.listen is set")

// isUnasked reports whether an error of askState says nothing of the daemon: it listens elsewhere or nowhere, or
// answers as many questions as it may.
func isUnasked(err error) bool {
	for _, no := range []error{errUnasked, fs.ErrNotExist, fs.ErrPermission, syscall.ECONNREFUSED} {
		if errors.Is(err, no) {
			return true
		}
	}
	return isBusy(err)
}

// askState asks the daemon of a configuration how it is: nil for that of users whose priod.toml cannot be read.
func askState(ctx context.Context, cfg *config.Config) (*daemon.State, error) {
	switch {
	case cfg == nil:
		return health(ctx, ownSocket(cfg))
	case cfg.OwnJobsSocket() != "":
		state, err := health(ctx, ownSocket(cfg))
		if err == nil || cfg.Metrics.Listen == "" {
			return state, err
		}
	case cfg.Metrics.Listen == "":
		return nil, errUnasked
	}
	return health(ctx, cfg.Metrics.Listen)
}

// health reads /health.
func health(ctx context.Context, address string) (*daemon.State, error) {
	_, text, err := ask(ctx, address, http.MethodGet, "/health", nil, askPatience)
	if err != nil {
		return nil, err
	}
	state := new(daemon.State)
	if err := json.Unmarshal(text, state); err != nil {
		return nil, fmt.Errorf("the program on %s is not priod: %w", address, err)
	}
	return state, nil
}

// ownSocket is where users ask the daemon; nil stands for the configuration of users whose priod.toml cannot be read. "": nowhere.
func ownSocket(cfg *config.Config) string {
	socket := filepath.Join(filepath.Dir(strings.TrimPrefix(wake.Default, "unix:")), config.OwnJobs)
	if cfg != nil {
		socket = cfg.OwnJobsSocket()
	}
	if socket == "" {
		return ""
	}
	return "unix:" + socket
}

// askOwn asks the daemon as the user who calls; why is the error with which the state folder refused.
func askOwn(ctx context.Context, cfg *config.Config, method, path string, body []byte, why error) ([]byte, error) {
	socket := ownSocket(cfg)
	if socket == "" || !errors.Is(why, fs.ErrPermission) {
		return nil, why
	}
	status, text, err := ask(ctx, socket, method, path, body, 30*time.Second)
	switch at := strings.TrimPrefix(socket, "unix:"); {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("%w; users ask the daemon, on its own host, and it does not listen at %s", why, at)
	case isBusy(err):
		return nil, errors.New("the daemon answers only a few questions of a user at a time: try again in a moment")
	case err != nil:
		return nil, fmt.Errorf("ask the daemon at %s: %w", at, err)
	case status == http.StatusBadRequest:
		return nil, usageError{errors.New(string(bytes.TrimSpace(text)))}
	case status != http.StatusOK:
		return nil, errors.New(string(bytes.TrimSpace(text)))
	}
	return text, nil
}

// isBusy reports whether a daemon closed a connection because the same user has others open.
func isBusy(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// ask puts a question to a daemon that has patience to answer; one that is busy is asked again for two seconds.
func ask(ctx context.Context, address, method, path string, body []byte, patience time.Duration) (status int, text []byte, err error) {
	network := "tcp"
	if socket, unix := strings.CutPrefix(address, "unix:"); unix {
		network, address = "unix", socket
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		question, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		answer, err := client.Do(question)
		if isBusy(err) && time.Since(begun) < askPatience {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		defer answer.Body.Close()
		text, err = io.ReadAll(io.LimitReader(answer.Body, ownMaxText))
		return answer.StatusCode, text, err
	}
}
