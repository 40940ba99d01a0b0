package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"slurmprio/priod/cluster"
)

// The metrics of a GPU's use, %: of NVIDIA's dcgm-exporter, of jobstats' exporter with the job's id in a metric of its own, and
// of slurm-job-exporter.
const (
	dcgmUse     = "DCGM_FI_DEV_GPU_UTIL"
	jobstatsUse = "nvidia_gpu_duty_cycle"
	jobstatsJob = "nvidia_gpu_jobId"
	exporterUse = "slurm_job_utilization_gpu"
)

// gpuQuery asks for all of them in one query: the most that each GPU was used within a time, so that work between two queries
// counts, and the last value of one with no sample in it. The label metric names the metric: what is computed has no name.
func gpuQuery(within time.Duration) string {
	named := func(metric, of string) string {
		return fmt.Sprintf(`label_replace(%s, "metric", %q, "", "")`, of, metric)
	}
	parts := []string{named(jobstatsJob, jobstatsJob)}
	for _, metric := range []string{dcgmUse, jobstatsUse, exporterUse} {
		parts = append(parts, named(metric, fmt.Sprintf("max_over_time(%[1]s[%[2]ds]) or %[1]s", metric, max(int64(math.Ceil(within.Seconds())), 1))))
	}
	return strings.Join(parts, " or ")
}

const (
	// prometheusPatience is how long an answer may take.
	prometheusPatience = 10 * time.Second
	// maxAnswer bounds what is read of one: some 400 bytes for each GPU and metric.
	maxAnswer = 32 << 20
	// idleUse is the use of a GPU, %, up to which it does nothing: monitoring itself costs that much.
	idleUse = 1
)

// prometheusClient uses no proxy, and follows no redirect.
var prometheusClient = &http.Client{
	Transport:     &http.Transport{Proxy: nil, MaxIdleConns: 1, IdleConnTimeout: 5 * time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// sample is one of Prometheus' answer, with the labels that name a GPU, its node and its job.
type sample struct {
	Metric struct {
		Name     string `json:"metric"`
		Hostname string `json:"Hostname"`
		Instance string `json:"instance"`
		Job      string `json:"hpc_job"`
		JobID    string `json:"jobid"`
		SlurmJob string `json:"slurmjobid"`
		UUID     string `json:"UUID"`
		GPU      string `json:"gpu"`
		Minor    string `json:"minor_number"`
	} `json:"metric"`
	Value [2]json.RawMessage `json:"value"`
}

// gpu names the GPU of a sample.
func (s *sample) gpu() string {
	m := &s.Metric
	if m.UUID != "" {
		return m.UUID
	}
	return m.Hostname + "|" + m.Instance + "|" + m.GPU + "|" + m.Minor
}

func (s *sample) value() (float64, error) {
	var text string
	if err := json.Unmarshal(s.Value[1], &text); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// gpuUse is how busy the GPUs of one job, or one node, are, or were within a time.
type gpuUse struct {
	gpus int
	most float64
}

// gpuReading is what a Prometheus says of all GPUs.
type gpuReading struct {
	at      time.Time
	within  time.Duration     // before at, in which their use counts
	jobs    map[uint32]gpuUse // by Slurm's own id of a record
	nodes   map[string]gpuUse // of GPUs without a job's label, by host
	dropped int               // samples that make no sense
}

// parseGPUs reads Prometheus' answer to gpuQuery.
func parseGPUs(body []byte) (*gpuReading, error) {
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			ResultType string   `json:"resultType"`
			Result     []sample `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("no answer of Prometheus: %w", err)
	}
	if answer.Status != "success" || answer.Data.ResultType != "vector" {
		return nil, fmt.Errorf("status %.20q, type %.20q: %.200s", answer.Status, answer.Data.ResultType, answer.Error)
	}
	r := &gpuReading{jobs: map[uint32]gpuUse{}, nodes: map[string]gpuUse{}}
	owners := map[string]uint32{} // of jobstats' GPUs
	for i := range answer.Data.Result {
		if s := &answer.Data.Result[i]; s.Metric.Name == jobstatsJob {
			if id, err := s.value(); err == nil && id >= 1 && id <= 1<<32-1 {
				owners[s.gpu()] = uint32(id)
			}
		}
	}
	type key struct {
		job       uint32
		host, gpu string
	}
	byMetric := map[string]map[key]float64{dcgmUse: {}, jobstatsUse: {}, exporterUse: {}}
	for i := range answer.Data.Result {
		s := &answer.Data.Result[i]
		gpus := byMetric[s.Metric.Name]
		if gpus == nil {
			continue
		}
		use, err := s.value()
		if err != nil || !(use >= 0 && use <= 100) { // NaN is neither
			r.dropped++
			continue
		}
		k := key{job: owners[s.gpu()], gpu: s.gpu()}
		label := s.Metric.Job + s.Metric.SlurmJob
		if s.Metric.Name == jobstatsUse && k.job == 0 {
			label = s.Metric.JobID
		}
		if label != "" {
			id, err := strconv.ParseUint(label, 10, 32)
			if err != nil {
				r.dropped++
				continue
			}
			k.job = uint32(id)
		}
		if k.job == 0 {
			k.host, _, _ = strings.Cut(s.Metric.Hostname, ".")
		}
		gpus[k] = max(gpus[k], use) // two Prometheus servers may hold one GPU twice
	}
	for _, gpus := range byMetric {
		jobs, nodes := map[uint32]gpuUse{}, map[string]gpuUse{}
		for k, use := range gpus {
			if k.job != 0 {
				jobs[k.job] = gpuUse{jobs[k.job].gpus + 1, max(jobs[k.job].most, use)}
			} else if k.host != "" {
				nodes[k.host] = gpuUse{nodes[k.host].gpus + 1, max(nodes[k.host].most, use)}
			}
		}
		join(r.jobs, jobs)
		join(r.nodes, nodes)
	}
	return r, nil
}

// join adds what one metric says to what others do.
func join[K comparable](to, from map[K]gpuUse) {
	for k, u := range from {
		to[k] = gpuUse{max(to[k].gpus, u.gpus), max(to[k].most, u.most)}
	}
}

// askPrometheus reads the use of all GPUs within a time.
func askPrometheus(ctx context.Context, address string, within time.Duration) (*gpuReading, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, prometheusPatience, fmt.Errorf("no answer within %v", prometheusPatience))
	defer cancel()
	where := strings.TrimSuffix(address, "/") + "/api/v1/query?query=" + url.QueryEscape(gpuQuery(within))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	answer, err := prometheusClient.Do(request)
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, errors.Join(context.Cause(ctx), err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("more than %d MB", maxAnswer>>20)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %.200s", answer.Status, body)
	}
	r, err := parseGPUs(body)
	if err != nil {
		return nil, err
	}
	r.at, r.within = at, within
	return r, nil
}

// sign is what the GPUs of a job show. hosts are its nodes, sharers the GPU jobs on each. A job of which fewer GPUs are seen than it
// holds may work on the others; the use of a node may be that of a job which ended within the time of the reading.
func (r *gpuReading) sign(j *cluster.Job, hosts []string, sharers map[string]int) (sign cluster.Sign, tells bool) {
	sign = cluster.Sign{Shows: cluster.GPUs, Source: cluster.FromPrometheus}
	use, known := r.jobs[j.RawID]
	alone := true
	if !known {
		for _, h := range hosts {
			short, _, _ := strings.Cut(h, ".")
			n, seen := r.nodes[short]
			if !seen {
				return sign, false
			}
			use, alone = gpuUse{use.gpus + n.gpus, max(use.most, n.most)}, alone && sharers[h] == 1 && r.at.Sub(j.Start) >= r.within
		}
	}
	sign.Value, sign.Works = use.most, use.most > idleUse
	if sign.Works {
		return sign, alone
	}
	return sign, use.gpus >= j.GPUs && use.gpus > 0
}
