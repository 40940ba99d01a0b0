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
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/report"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/wake"
)

// Users who may not read the state folder ask the daemon about their own jobs, by HTTP on the socket explain beside
// that of wake.listen:
//
//	GET /explain?job=4711&all=1     the text of priod explain
//	GET /explain?job=4711&json=1    the object of priod explain --json
//	GET /eta?job=4711               the object of priod eta --json; without job of all that wait
//	POST /eta                       requests of jobs that are not submitted; what is expected on each GPU type
//
// The answer is that of the state folder: it costs Slurm nothing.

const (
	ownAtOnce  = 2 // answers to the same question that are made at the same time
	ownJobs    = 20
	ownMaxText = 1 << 20

	ownPatience = 20 * time.Second
)

// anotherUser stands for names that are not the asker's.
const anotherUser = "another user"

// ownHandler answers a user about that user's jobs.
func ownHandler(cfg *config.Config) http.Handler {
	mux := http.NewServeMux()
	answer := func(path string, with func(ctx context.Context, asker string, query url.Values, asked []byte, w io.Writer) (status int, err error)) {
		turns := make(chan struct{}, ownAtOnce) // of each question: forecasts may wait for Slurm, explanations need not wait for them
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			uid, known := daemon.Asker(r.Context())
			asker, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
			if !known || err != nil {
				http.Error(w, fmt.Sprintf("user %d has no name on this host", uid), http.StatusForbidden)
				return
			}
			asked, err := io.ReadAll(http.MaxBytesReader(w, r.Body, ownMaxText)) // at the asker's pace, so before the turn
			if err != nil {
				http.Error(w, "the question cannot be read", http.StatusBadRequest)
				return
			}
			ctx, cancel := context.WithTimeout(r.Context(), ownPatience)
			defer cancel()
			var body bytes.Buffer
			status := http.StatusServiceUnavailable
			if !daemon.InTurn(r, turns, ownPatience, func() { status, err = with(ctx, asker.Username, r.URL.Query(), asked, &body) }) {
				err = errors.New("too many users ask at once: try again in a moment")
			}
			daemon.Sending(w)
			if err != nil {
				http.Error(w, report.Safe(err.Error()), status)
				return
			}
			_, _ = body.WriteTo(w) // fails when the asker has gone
		})
	}
	forecasts := ownForecasts{cfg: cfg}
	answer("GET /explain", func(ctx context.Context, asker string, query url.Values, _ []byte, w io.Writer) (int, error) {
		return explainOwn(ctx, cfg, asker, query, w)
	})
	answer("GET /eta", func(ctx context.Context, asker string, query url.Values, _ []byte, w io.Writer) (int, error) {
		return forecasts.jobs(ctx, asker, query["job"], w)
	})
	answer("POST /eta", func(ctx context.Context, asker string, _ url.Values, asked []byte, w io.Writer) (int, error) {
		return forecasts.requests(ctx, asker, asked, w)
	})
	return mux
}

// explainOwn writes what is stored of jobs of one user; status is that of the error.
func explainOwn(ctx context.Context, cfg *config.Config, username string, asked url.Values, w io.Writer) (status int, err error) {
	names := asked["job"]
	if len(names) == 0 || len(names) > ownJobs {
		return http.StatusBadRequest, fmt.Errorf("%d jobs: want 1 to %d", len(names), ownJobs)
	}
	r, err := store.OpenReader(ctx, cfg.State.Dir)
	if err != nil {
		return http.StatusServiceUnavailable, err
	}
	defer r.Close()
	all, times := make([]*explanation, len(names)), runTimeReader{r: r}
	for i, text := range names {
		id, err := storedName(ctx, r, text)
		if err == nil {
			all[i], err = storedExplanation(ctx, cfg, r, id)
		}
		if err == nil && all[i].Job.User != username || errors.Is(err, store.ErrNone) {
			err = unknown(text, username)
		}
		if err != nil {
			return statusOf(err), err
		}
		if err := errors.Join(all[i].jobSpeeds(ctx, cfg, r, ""), times.fill(ctx, all[i], "")); err != nil {
			return http.StatusServiceUnavailable, err
		}
		all[i].hideOthers(username)
	}
	switch {
	case asked.Get("json") == "":
		for i, v := range all {
			if i > 0 {
				fmt.Fprintln(w)
			}
			v.show(w, asked.Get("all") != "")
		}
		return 0, nil
	case len(all) == 1:
		return http.StatusInternalServerError, report.JSON(w, all[0])
	}
	return http.StatusInternalServerError, report.JSON(w, several{Jobs: all, Unknown: []unknownJob{}})
}

// noJob is a job that priod does not know, or not of that user: store.ErrNone in other words.
type noJob struct{ error }

func (noJob) Is(target error) bool { return target == store.ErrNone }

// unknown says so; username "": of any user.
func unknown(job, username string) error {
	whose := ""
	if username != "" {
		whose = " of " + username
	}
	return noJob{fmt.Errorf("priod knows no job %.40s%s: it sees jobs that wait in ranked partitions", job, whose)}
}

// statusOf is what an error is in HTTP.
func statusOf(err error) int {
	switch {
	case errors.Is(err, store.ErrNone):
		return http.StatusNotFound
	case errors.As(err, new(usageError)):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

// storedName finds a job by its name in the state folder alone.
func storedName(ctx context.Context, r *store.Reader, text string) (cluster.JobID, error) {
	name, err := slurmplug.ParseJobName(text)
	switch {
	case err != nil:
		return cluster.JobID{}, usageError{err}
	case name.SLUID != "":
		return cluster.JobID{}, fmt.Errorf("%w under a SLUID: ask by the job's number", store.ErrNone)
	case name.Offset >= 0:
		return r.Component(ctx, name.Job.ID, name.Offset)
	}
	return name.Job, nil
}

// hideOthers takes away what is another user's: a site may keep it private (PrivateData=jobs), and job ids come again. A
// name that is not one user's, such as nobody or a number, is not taken for the asker's.
func (v *explanation) hideOthers(username string) {
	v.Failures = slices.DeleteFunc(v.Failures, func(f retry.Failure) bool { return f.User != username })
	v.Evictions = slices.DeleteFunc(v.Evictions, func(e store.Eviction) bool { return e.ForUser != username && e.VictimUser != username })
	for i := range v.Evictions {
		e := &v.Evictions[i]
		if e.ForUser != username {
			e.ForUser = anotherUser
		}
		if e.VictimUser != username {
			e.VictimUser, e.VictimTag = anotherUser, ""
		}
	}
}

// askDaemon has the daemon explain jobs of the user who calls; why is the error with which the state folder refused.
func askDaemon(c *cli.Context, cfg *config.Config, names []string, why error) error {
	query := url.Values{"job": names}
	for _, flag := range []string{"all", "json"} {
		if c.Bool(flag) {
			query.Set(flag, "1")
		}
	}
	text, err := askOwn(c.Context, cfg, http.MethodGet, "/explain?"+query.Encode(), nil, why)
	switch {
	case err != nil:
		return err
	case c.Bool("json") && !json.Valid(text):
		return fmt.Errorf("the daemon answers with more than %d bytes: ask about fewer jobs", ownMaxText)
	}
	stampOwn(c, cfg)
	return answer(c, json.RawMessage(text), func(w io.Writer) { _, _ = w.Write(text) })
}

// askOwn asks the daemon as the user who calls; why is the error with which the state folder refused.
func askOwn(ctx context.Context, cfg *config.Config, method, path string, body []byte, why error) ([]byte, error) {
	socket := filepath.Join(filepath.Dir(strings.TrimPrefix(wake.Default, "unix:")), config.OwnJobs)
	if cfg != nil { // priod.toml, too, may not be for users
		socket = cfg.OwnJobsSocket()
	}
	if socket == "" || !errors.Is(why, fs.ErrPermission) {
		return nil, why
	}
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(ctx, method, "http://priod"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("%w; users ask the daemon, on its own host, and it does not listen at %s", why, socket)
		}
		if isBusy(err) {
			return nil, errors.New("the daemon answers only a few questions of a user at a time: try again in a moment")
		}
		return nil, fmt.Errorf("ask the daemon at %s: %w", socket, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, ownMaxText))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask the daemon at %s: %w", socket, err)
	case answer.StatusCode == http.StatusBadRequest:
		return nil, usageError{errors.New(string(bytes.TrimSpace(text)))}
	case answer.StatusCode != http.StatusOK:
		return nil, errors.New(string(bytes.TrimSpace(text)))
	}
	return text, nil
}
