package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/web"
)

func webCommand() *cli.Command {
	return &cli.Command{
		Name: "web", Usage: "serve the pages without the daemon, from the state folder",
		Description: "The daemon serves the same if web.listen is set. Read-only; ends with SIGTERM or Ctrl-C.\n" +
			"    priod web                                  # http://127.0.0.1:9818/\n" +
			"    priod web --listen unix:/run/user/1000/priod.sock\n" +
			"    priod web --state month                    # a replay that priod simulate --state recorded",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:9818", Usage: "`ADDRESS` is a loopback address with a port, or unix:/absolute/path"},
			stateFlags()[0],
		},
		Before: noArgs,
		Action: func(c *cli.Context) error {
			cfg, err := stateConfig(c)
			if err != nil {
				return err
			}
			address := c.String("listen")
			if address == "" || !config.LocalAddress(address) {
				return usagef("--listen %.80q: want a loopback address such as 127.0.0.1:9818 or [::1]:9818, or unix:/absolute/path", address)
			}
			if cfg.Web.UserHeader != "" && !strings.HasPrefix(address, "unix:") {
				return usagef("--listen %.80q: web.user_header wants unix:/absolute/path: on a loopback address any user of this host could send the header", address)
			}
			r, err := store.OpenReader(c.Context, cfg.State.Dir)
			if err != nil {
				return err
			}
			if err := r.Close(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return servePages(ctx, c, cfg, address)
		},
	}
}

func servePages(ctx context.Context, c *cli.Context, cfg *config.Config, address string) error {
	l, err := daemon.Listen(address)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := daemon.Server(Pages(c.App.Version)(cfg, healthOf(ctx, cfg)), newLogger(cfg, c.App.ErrWriter))
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	where := address
	if l.Addr().Network() == "tcp" {
		where = "http://" + address + "/"
	}
	fmt.Fprintf(c.App.Writer, "serving %s at %s\n", report.Safe(cfg.State.Dir), report.Safe(where))
	go func() {
		<-ctx.Done()
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(patient) // what is still open ends with the process
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// healthOf asks the daemon of the state folder how it is; nil where none has run there.
func healthOf(ctx context.Context, cfg *config.Config) func() daemon.State {
	if pid, _, err := store.Running(cfg.State.Dir); err != nil || pid == 0 {
		return nil
	}
	return func() daemon.State {
		s := sureness{AsOf: time.Now()} // a page has the time of the last cycle itself
		s.look(ctx, cfg)
		if s.state != nil {
			return *s.state
		}
		return daemon.State{Healthy: s.Doubt == "", Reason: s.Doubt, PID: s.pid, Dir: cfg.State.Dir, On: cfg.On()}
	}
}

// Pages are those of a state folder, with the daemon's own word of its health.
func Pages(version string) func(cfg *config.Config, health func() daemon.State) http.Handler {
	return func(cfg *config.Config, health func() daemon.State) http.Handler {
		return (&web.Pages{Config: cfg, Version: version, Health: health, Keep: 2 * time.Second}).Handler()
	}
}
