// Package alerts runs priod's alert rules in Prometheus's own code, by promtool.
package alerts

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v2"
)

// Rule is one alert of the rules' file.
type Rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// Path is the file of the repository.
func Path(t testing.TB, name ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(append([]string{dir}, name...)...)
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above this folder")
	return ""
}

func rulesPath(t testing.TB) string { return Path(t, "etc", "prometheus", "priod.rules.yml") }

// Rules are all alerts.
func Rules(t testing.TB) (rules []Rule) {
	t.Helper()
	text, err := os.ReadFile(rulesPath(t))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []Rule
		}
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// Test is what Prometheus scraped, a sample a minute, and which alerts fire when.
type Test struct {
	Name string
	// Series are values as promtool takes them ("0x9 1x20", "_x5"), by series. Those
	// without an instance are of the job and instance "priod".
	Series map[string]string
	// Firing are the alerts that fire at a minute, all of them, or those of Of. With Each they
	// are told apart by instance, as "PriodPaused a".
	Firing map[int][]string
	Of     []string // nil: all
	Each   bool
	// Ever are the instances of which any alert fires within a number of minutes.
	Ever map[int][]string
}

// Up is a priod that is scraped for half a day.
var Up = map[string]string{`priod_build_info{version="1",goversion="go"}`: "1x720", "up": "1x720", "priod_healthy": "1x720"}

// With adds series to others; those of the same name replace them.
func With(series map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for name, values := range series {
		out[name] = values
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

type (
	file struct {
		Rules    []string    `yaml:"rule_files"`
		Interval string      `yaml:"evaluation_interval"`
		Tests    []promtests `yaml:"tests"`
	}
	promtests struct {
		Name     string  `yaml:"name"`
		Interval string  `yaml:"interval"`
		Input    []input `yaml:"input_series"`
		Exprs    []expr  `yaml:"promql_expr_test"`
	}
	input struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	expr struct {
		Expr    string   `yaml:"expr"`
		At      string   `yaml:"eval_time"`
		Samples []sample `yaml:"exp_samples"`
	}
	sample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
)

// Need returns where promtool is. Without it the test is skipped, or fails where all
// tests have to run.
func Need(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err == nil {
		return path
	}
	if os.Getenv("SLURMPRIO_REQUIRE_LAB") != "" {
		t.Fatal("no promtool: tests/deps.sh installs it")
	}
	t.Skip("no promtool")
	return ""
}

// Run lets promtool judge the tests.
func Run(t testing.TB, tests ...Test) {
	t.Helper()
	tool := Need(t)
	f := file{Rules: []string{rulesPath(t)}, Interval: "1m"}
	for _, c := range tests {
		p := promtests{Name: c.Name, Interval: "1m"}
		for series, values := range c.Series {
			p.Input = append(p.Input, input{labelled(series), values})
		}
		slices.SortFunc(p.Input, func(a, b input) int { return strings.Compare(a.Series, b.Series) })
		of := ""
		if c.Of != nil {
			of = fmt.Sprintf(`,alertname=~"%s"`, strings.Join(c.Of, "|"))
		}
		by := "alertname"
		if c.Each {
			by = "alertname, instance"
		}
		for minute, firing := range c.Firing {
			e := expr{Expr: fmt.Sprintf(`count by (%s) (ALERTS{alertstate="firing"%s}) > bool 0`, by, of), At: fmt.Sprintf("%dm", minute)}
			for _, text := range firing {
				alert, instance, told := strings.Cut(text, " ")
				labels := fmt.Sprintf("{alertname=%q}", alert)
				if told {
					labels = fmt.Sprintf("{alertname=%q,instance=%q}", alert, instance)
				}
				e.Samples = append(e.Samples, sample{labels, 1})
			}
			p.Exprs = append(p.Exprs, e)
		}
		for minutes, instances := range c.Ever {
			e := expr{Expr: fmt.Sprintf(`count by (instance) (count_over_time(ALERTS{alertstate="firing"}[%dm])) > bool 0`, minutes), At: fmt.Sprintf("%dm", minutes)}
			for _, instance := range instances {
				e.Samples = append(e.Samples, sample{fmt.Sprintf("{instance=%q}", instance), 1})
			}
			p.Exprs = append(p.Exprs, e)
		}
		f.Tests = append(f.Tests, p)
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules_test.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool, "test", "rules", path)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400") // a quarter less CPU
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// labelled is a series with the labels that Prometheus adds.
func labelled(series string) string {
	if strings.Contains(series, "instance=") {
		return series
	}
	return of(series, "priod")
}

func of(series, instance string) string {
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	if labels != "" {
		labels += ","
	}
	return fmt.Sprintf("%s{%sinstance=%q,job=%q}", name, labels, instance, instance)
}

// On adds to series those of an instance, a job of its own.
func On(all map[string]string, instance string, series map[string]string) {
	for s, values := range series {
		all[of(s, instance)] = values
	}
}

// Phase is a time in which a state lasted, with what was scraped at its begin and its end.
type Phase struct {
	Minutes     int
	First, Last map[string]*dto.MetricFamily
}

var metricName = regexp.MustCompile(`\b(?:priod|process)_\w+`)

// Scraped are the series of phases one after the other, as far as alerts name them. A
// gauge keeps the value that it had at the end; a counter grows from the one to the other.
func Scraped(t testing.TB, phases ...Phase) map[string]string {
	t.Helper()
	named := map[string]bool{}
	for _, r := range Rules(t) {
		for _, name := range metricName.FindAllString(r.Expr, -1) {
			named[name] = true
		}
	}
	series, minutes := map[string]string{"up": ""}, 0
	for _, p := range phases {
		begin, now := values(p.First, named), values(p.Last, named)
		now["up"] = one{1, false}
		for s, v := range now {
			if _, known := series[s]; !known {
				series[s] = strings.Repeat("_ ", minutes)
			}
			first, step := v.value, 0.0
			if v.counts {
				first = begin[s].value
				step = (v.value - first) / float64(p.Minutes)
			}
			for minute := range p.Minutes {
				series[s] += number(first+step*float64(minute+1)) + " "
			}
		}
		minutes += p.Minutes
		for s := range series {
			if _, known := now[s]; !known {
				series[s] += strings.Repeat("_ ", p.Minutes)
			}
		}
	}
	return series
}

type one struct {
	value  float64
	counts bool
}

// values are the samples of a scrape, by series.
func values(scrape map[string]*dto.MetricFamily, named map[string]bool) map[string]one {
	out := map[string]one{}
	for name, family := range scrape {
		if !named[name] {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			out[name+"{"+strings.Join(labels, ",")+"}"] = one{m.GetGauge().GetValue() + m.GetCounter().GetValue(), m.Counter != nil}
		}
	}
	return out
}

func number(v float64) string {
	if math.IsNaN(v) {
		return "NaN"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
