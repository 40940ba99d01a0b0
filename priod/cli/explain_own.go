package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/user"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
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

// ownHandler answers a user about that user's jobs.
func ownHandler(cfg *config.Config) http.Handler {
	mux := http.NewServeMux()
	answer := func(path string, with func(ctx context.Context, r *store.Reader, asker string, query url.Values, asked []byte, w io.Writer) error) {
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
			inTurn := daemon.InTurn(r, turns, ownPatience, func() {
				reader, unread := store.OpenReader(ctx, cfg.State.Dir)
				if err = unread; err == nil {
					defer reader.Close()
					err = with(ctx, reader, asker.Username, r.URL.Query(), asked, &body)
				}
			})
			if !inTurn {
				err = errors.New("too many users ask at once: try again in a moment")
			}
			daemon.Sending(w)
			if err != nil {
				http.Error(w, report.Safe(err.Error()), statusOf(err))
				return
			}
			_, _ = body.WriteTo(w) // fails when the asker has gone
		})
	}
	forecasts, times := ownForecasts{cfg: cfg}, &view.RunTimes{}
	answer("GET /explain", func(ctx context.Context, r *store.Reader, asker string, query url.Values, _ []byte, w io.Writer) error {
		return explainOwn(ctx, cfg, r, times, asker, query, w)
	})
	answer("GET /eta", func(ctx context.Context, r *store.Reader, asker string, query url.Values, _ []byte, w io.Writer) error {
		return forecasts.jobs(ctx, r, asker, query["job"], w)
	})
	answer("POST /eta", func(ctx context.Context, r *store.Reader, asker string, _ url.Values, asked []byte, w io.Writer) error {
		return forecasts.requests(ctx, r, asker, asked, w)
	})
	return mux
}

// explainOwn writes what is stored of jobs of one user.
func explainOwn(ctx context.Context, cfg *config.Config, r *store.Reader, times *view.RunTimes, username string, asked url.Values, w io.Writer) error {
	names := asked["job"]
	if len(names) == 0 || len(names) > ownJobs {
		return usagef("%d jobs: want 1 to %d", len(names), ownJobs)
	}
	all, err := view.ExplainStored(ctx, cfg, r, times, names, username)
	switch {
	case err != nil:
		return err
	case asked.Get("json") == "":
		several{Jobs: all}.show(w, asked.Get("all") != "")
		return nil
	case len(all) == 1:
		return report.JSON(w, all[0])
	}
	return report.JSON(w, several{Jobs: all, Unknown: []unknownJob{}})
}

// statusOf is what an error is in HTTP.
func statusOf(err error) int {
	switch {
	case errors.Is(err, store.ErrNone):
		return http.StatusNotFound
	case isWrong(err):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
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
