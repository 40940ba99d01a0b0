package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"slurmprio/priod/daemon"
)

type viewerKey struct{}

// viewer is the user who sees only what is the user's own; "": all is seen.
func viewer(ctx context.Context) string {
	user, _ := ctx.Value(viewerKey{}).(string)
	return user
}

// viewer of a request, where the site's proxy names the user; "": one who sees all. A header that stands twice has one from the browser: neither is believed.
func (p *Pages) viewer(r *http.Request) (string, error) {
	if p.Config.Web.UserHeader == "" {
		return "", nil
	}
	names := r.Header.Values(p.Config.Web.UserHeader)
	if len(names) != 1 || names[0] == "" {
		return "", fmt.Errorf("these pages are for users whom the site's proxy names once, in the header %s", p.Config.Web.UserHeader)
	}
	if slices.Contains(p.Config.Web.Operators, names[0]) {
		return "", nil
	}
	return names[0], nil
}

// asker is whose request waits: the viewer, or the user at the other end of the connection.
func asker(r *http.Request) string {
	if user := viewer(r.Context()); user != "" {
		return "viewer " + user
	}
	uid, known := daemon.Asker(r.Context())
	return strconv.FormatUint(uint64(uid), 10) + strconv.FormatBool(known)
}
