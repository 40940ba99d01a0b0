package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/consent"
	"slurmprio/slurmplug/jobtag"
)

// ClassRule is one [[class]] table: see consent.Class.
type ClassRule struct {
	Name        string   `toml:"name" json:"name"`
	Type        string   `toml:"type" json:"type"`
	Partitions  []string `toml:"partitions" json:"partitions,omitempty"`
	QOS         []string `toml:"qos" json:"qos,omitempty"`
	Accounts    []string `toml:"accounts" json:"accounts,omitempty"`
	MaxTime     Duration `toml:"max_time" json:"max_time,omitempty"`
	MaxGPUs     int      `toml:"max_gpus" json:"max_gpus,omitempty"`
	Interactive bool     `toml:"interactive" json:"interactive,omitempty"`
	JobName     string   `toml:"job_name" json:"job_name,omitempty"`
}

// Consent is one [[consent]] table: see consent.Table.
type Consent struct {
	Partitions []string `toml:"partitions" json:"partitions,omitempty"`
	QOS        []string `toml:"qos" json:"qos,omitempty"`
	Accounts   []string `toml:"accounts" json:"accounts,omitempty"`
	Evict      bool     `toml:"evict" json:"evict,omitempty"`
	Grace      Duration `toml:"grace" json:"grace,omitempty"`
	Signal     string   `toml:"signal" json:"signal,omitempty"`
	GPUType    bool     `toml:"gpu_type" json:"gpu_type,omitempty"`
	Size       bool     `toml:"size" json:"size,omitempty"`
	Switches   bool     `toml:"switches" json:"switches,omitempty"`
	Requeue    bool     `toml:"requeue" json:"requeue,omitempty"`

	AnyPartition bool `toml:"any_partition" json:"any_partition,omitempty"`
}

// ConsentRules are the site's rules for jobs that do not say.
func (c *Config) ConsentRules() consent.Rules {
	var r consent.Rules
	for _, x := range c.Classes {
		rule := consent.Class{
			Name: x.Name, Type: x.Type, Match: consent.Match{Partitions: x.Partitions, QOS: x.QOS, Accounts: x.Accounts},
			MaxTime: time.Duration(x.MaxTime), MaxGPUs: x.MaxGPUs, Interactive: x.Interactive,
		}
		if x.JobName != "" {
			rule.JobName = regexp.MustCompile(x.JobName) // checkConsent compiled it
		}
		r.Classes = append(r.Classes, rule)
	}
	for _, x := range c.Consents {
		anyOf := ""
		if x.AnyPartition {
			anyOf = strings.Join(x.Partitions, ",")
		}
		r.Tables = append(r.Tables, consent.Table{
			Match: consent.Match{Partitions: x.Partitions, QOS: x.QOS, Accounts: x.Accounts},
			Evict: x.Evict, Grace: time.Duration(x.Grace), Signal: x.Signal, GPUType: x.GPUType, Size: x.Size, Switches: x.Switches, Requeue: x.Requeue, AnyOf: anyOf,
		})
	}
	return r
}

// checkConsent refuses class rules and consent tables that make no sense.
func (c *Config) checkConsent() error {
	var names []string
	for i, x := range c.Classes {
		at := fmt.Sprintf("[[class]] %d", i+1)
		if x.Name != "" {
			at = fmt.Sprintf("[[class]] %.40q", x.Name)
		}
		_, err := regexp.Compile(x.JobName)
		for _, r := range []rule{
			{"name", jobtag.ValidName(x.Name) && !slices.Contains(names, x.Name), "letters, digits, '.', '-' and '_', each name once"},
			{"type", x.Type == "te" || x.Type == "be", "te or be"},
			{"partitions, qos, accounts", single(slices.Concat(x.Partitions, x.QOS, x.Accounts)), "names, each in quotes of its own"},
			{"max_time", x.MaxTime >= 0, "0s (any) or more"},
			{"max_gpus", x.MaxGPUs >= 0, "0 (any) or more"},
			{"job_name", err == nil, "a regular expression"},
		} {
			if !r.ok {
				return fmt.Errorf("%s: %s: want %s", at, r.key, r.want)
			}
		}
		names = append(names, x.Name)
	}
	for i, x := range c.Consents {
		var tag jobtag.Tag
		for _, r := range []rule{
			{"partitions, qos, accounts", single(slices.Concat(x.Partitions, x.QOS, x.Accounts)), "names, each in quotes of its own"},
			{"evict, gpu_type, size, switches, requeue", x.Evict || x.GPUType || x.Size || x.Switches || x.Requeue, "one of them true: the table agrees to nothing"},
			{"grace", x.Grace >= 0 && x.Grace <= c.Preemption.MaxGrace && time.Duration(x.Grace)%time.Second == 0, "whole seconds up to preemption.max_grace"},
			{"signal", x.Signal == "" || tag.Set("signal", x.Signal) == nil, "a signal that a program can catch, such as USR1 or B:USR1"},
			{"any_partition", !x.AnyPartition || x.GPUType && len(x.Partitions) > 1, "gpu_type = true and two or more partitions beside it"},
			{"grace, signal", x.Evict || x.Grace == 0 && x.Signal == "", "evict = true beside them"},
		} {
			if !r.ok {
				return fmt.Errorf("[[consent]] %d: %s: want %s", i+1, r.key, r.want)
			}
		}
	}
	return nil
}
