package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"slurmprio/priod/guarantee"
)

// shareMetrics tell of guaranteed shares. Their accounts are those of priod.toml.
type shareMetrics struct {
	gpus     *prometheus.GaugeVec
	returns  *prometheus.CounterVec
	returned *prometheus.HistogramVec
}

// What entitled jobs came to that waited.
const (
	returnInTime = "in-time"
	returnLate   = "late"
)

func newShareMetrics(f factory) *shareMetrics {
	return &shareMetrics{
		gpus:    f.NewGaugeVec(prometheus.GaugeOpts{Name: "priod_share_gpus", Help: "GPUs guaranteed to an account (entitled), used by it, of these beyond its share (borrowed), and of its share used by others (lent)."}, []string{"account", "gpus"}),
		returns: f.NewCounterVec(prometheus.CounterOpts{Name: "priod_share_returns_total", Help: "Jobs within their account's share that waited, by whether they started within return_within; a late one counts once its time is over."}, []string{"account", "result"}),
		returned: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "priod_share_return_seconds", Help: "Waits of such jobs from the first cycle at which they were within the share to their start.",
			Buckets: []float64{5, 10, 20, 30, 60, 90, 120, 180, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600},
		}, []string{"account"}),
	}
}

// shares takes in what the last cycle saw of shares.
func (m *metrics) shares(st *guarantee.Statement) {
	x := m.sharing
	x.gpus.Reset()
	for _, now := range st.Now() {
		for name, gpus := range map[string]float64{"entitled": now.Entitled, "used": now.Within + now.Borrowed, "borrowed": now.Borrowed, "lent": now.Lent} {
			x.gpus.WithLabelValues(now.Account, name).Set(gpus)
		}
		x.returns.WithLabelValues(now.Account, returnInTime)
		x.returns.WithLabelValues(now.Account, returnLate)
		x.returned.WithLabelValues(now.Account)
	}
	news := st.News()
	for i := range news.Started {
		r := &news.Started[i]
		x.returned.WithLabelValues(r.Account).Observe(r.Took(r.Until).Seconds())
		if !r.Late(r.Until) {
			x.returns.WithLabelValues(r.Account, returnInTime).Inc()
		}
	}
	for i := range news.Late {
		x.returns.WithLabelValues(news.Late[i].Account, returnLate).Inc()
	}
}
