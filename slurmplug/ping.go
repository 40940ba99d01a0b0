package slurmplug

import (
	"context"
	"errors"
	"strings"
)

// Ping asks each slurmctld whether it is up. A controller that is down is no
// error; output without a controller is.
func (c *Client) Ping(ctx context.Context) ([]Controller, error) {
	out, err := c.ask(ctx, Command{Name: "scontrol", Args: []string{"ping"}})
	if err != nil && !errors.Is(err, ErrExit) { // exit status 1: one is down
		return nil, err
	}
	all, parseErr := parsePing(string(out.Stdout))
	if parseErr != nil {
		return nil, errors.Join(parseErr, err)
	}
	return all, nil
}

// parsePing reads "Slurmctld(primary) at HOST is UP" lines.
func parsePing(out string) ([]Controller, error) {
	var all []Controller
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "Slurmctld(")
		if !ok {
			continue // "** RESTORE SLURMCTLD DAEMON TO SERVICE **"
		}
		role, rest, ok1 := strings.Cut(rest, ") at ")
		host, state, ok2 := strings.Cut(rest, " is ")
		if !ok1 || !ok2 || state != "UP" && state != "DOWN" {
			return nil, doubtful("scontrol ping", "%q", firstLine([]byte(line)))
		}
		all = append(all, Controller{Role: role, Host: host, Up: state == "UP"})
	}
	if all == nil {
		return nil, doubtful("scontrol ping", "no controller in %q", firstLine([]byte(out)))
	}
	return all, nil
}
