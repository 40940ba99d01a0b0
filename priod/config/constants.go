package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"slurmprio/priod/allocate"
	"slurmprio/priod/evict"
	"slurmprio/priod/guarantee"
	"slurmprio/priod/headroom"
	"slurmprio/priod/idle"
	"slurmprio/priod/locality"
	"slurmprio/priod/order"
	"slurmprio/priod/retry"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/priod/window"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/wake"
)

// Constants are the settings that no site changes: each stands in its room, with its source.
type Constants struct {
	Commands    slurmplug.Options
	Guarantee   guarantee.Settings
	Order       order.Settings
	Allocation  allocate.Settings
	Steering    steer.Settings
	Sizing      size.Settings
	Locality    locality.Settings
	Eviction    evict.Settings
	Watch       time.Duration // evictions under way
	Headroom    headroom.Settings
	Retries     retry.Settings
	Window      window.Settings
	Idle        idle.Settings
	LearnEvery  time.Duration
	ShortestRun time.Duration
	Polls       int // by TE submissions in a minute
}

func constantsOfRooms() Constants {
	return Constants{
		Commands: slurmplug.Constants, Guarantee: guarantee.Constants, Order: order.Constants, Allocation: allocate.Constants, Steering: steer.Constants,
		Sizing: size.Constants, Locality: locality.Constants,
		Eviction: evict.Constants, Watch: evict.Watch, Headroom: headroom.Constants, Retries: retry.Constants, Idle: idle.Constants, Window: window.Constants,
		LearnEvery: speed.LearnEvery, ShortestRun: speed.ShortestRun, Polls: wake.PollsPerMinute,
	}
}

// Settable has priod.toml and --set assign constants, too, by their old keys. Only tests set it, to shorten times: in their own process,
// and in a priod that they build with -ldflags "-X slurmprio/priod/config.Settable=yes".
var Settable string

// constant is a key that priod.toml had, of a value that is a constant now.
type constant struct {
	key string
	of  func(k *Constants) any // a pointer
}

var constants = []constant{
	{"slurm.command_timeout", func(k *Constants) any { return (*Duration)(&k.Commands.ReadTimeout) }},
	{"limits.writes_per_second", func(k *Constants) any { return &k.Commands.WritesPerSecond }},
	{"wake.polls_per_minute", func(k *Constants) any { return &k.Polls }},
	{"shares.ahead", func(k *Constants) any { return (*Duration)(&k.Guarantee.Ahead) }},
	{"ranking.top", func(k *Constants) any { return &k.Order.Top }},
	{"ranking.step", func(k *Constants) any { return &k.Order.Step }},
	{"ranking.nice_limit", func(k *Constants) any { return &k.Order.NiceLimit }},
	{"allocation.interval", func(k *Constants) any { return (*Duration)(&k.Allocation.Every) }},
	{"allocation.fifo", func(k *Constants) any { return &k.Allocation.FIFO }},
	{"steering.depth", func(k *Constants) any { return &k.Steering.Rule.Depth }},
	{"steering.wait_weight", func(k *Constants) any { return &k.Steering.Rule.Wait }},
	{"steering.min_share", func(k *Constants) any { return &k.Steering.Rule.Least }},
	{"steering.switch_threshold", func(k *Constants) any { return &k.Steering.Rule.Change }},
	{"steering.max_passed_cycles", func(k *Constants) any { return &k.Steering.Rule.Cycles }},
	{"steering.writes_per_cycle", func(k *Constants) any { return &k.Steering.WritesPerCycle }},
	{"rounds.min_gain_ratio", func(k *Constants) any { return &k.Eviction.Rounds.Pay }},
	{"rounds.max_yields", func(*Constants) any { n := 0; return &n }},
	{"rounds.finish_bonus", func(k *Constants) any { return (*seconds)(&k.Eviction.Rounds.Lead.Most) }},
	{"rounds.finish_bonus_half_life", func(k *Constants) any { return (*seconds)(&k.Eviction.Rounds.Lead.Half) }},
	{"sizing.start_timeout", func(k *Constants) any { return (*Duration)(&k.Sizing.Within) }},
	{"sizing.depth", func(k *Constants) any { return &k.Sizing.Jobs }},
	{"locality.wait_weight", func(k *Constants) any { return &k.Locality.Rule.Wait }},
	{"locality.max_wait", func(k *Constants) any { return (*seconds)(&k.Locality.Rule.Longest) }},
	{"locality.queue_weight", func(k *Constants) any { return &k.Locality.Rule.Others }},
	{"locality.limit_share", func(k *Constants) any { return &k.Locality.OfLimit }},
	{"locality.depth", func(k *Constants) any { return &k.Locality.Depth }},
	{"locality.writes_per_cycle", func(k *Constants) any { return &k.Locality.WritesPerCycle }},
	{"speeds.interval", func(k *Constants) any { return (*Duration)(&k.LearnEvery) }},
	{"speeds.min_run", func(k *Constants) any { return (*Duration)(&k.ShortestRun) }},
	{"preemption.fitgpp_s", func(k *Constants) any { return &k.Eviction.Policy.S }},
	{"preemption.fitgpp_fallback", func(*Constants) any { s := "node-set"; return &s }},
	{"preemption.run_cost", func(k *Constants) any { return &k.Eviction.Policy.RunCost }},
	{"preemption.restart", func(k *Constants) any { return (*Duration)(&k.Eviction.Restart) }},
	{"preemption.repeat_penalty", func(k *Constants) any { return &k.Eviction.Policy.Rise }},
	{"preemption.eviction_cost", func(k *Constants) any { return &k.Eviction.Policy.Each }},
	{"preemption.min_gain", func(k *Constants) any { return (*seconds)(&k.Eviction.Policy.MinGain) }},
	{"preemption.max_at_once", func(*Constants) any { n := 0; return &n }},
	{"preemption.max_per_cycle", func(*Constants) any { n := 0; return &n }},
	{"preemption.gpu_hours_per_day", func(k *Constants) any { return &k.Eviction.Policy.Limits.GPUHoursPerDay }},
	{"preemption.user_gpu_minutes_per_day", func(k *Constants) any { return &k.Eviction.Policy.Limits.UserGPUMinutesPerDay }},
	{"preemption.headroom_share", func(k *Constants) any { return &k.Headroom.Share }},
	{"preemption.headroom_interval", func(k *Constants) any { return (*Duration)(&k.Headroom.Every) }},
	{"preemption.reserve", func(*Constants) any { v := true; return &v }},
	{"preemption.reserve_for", func(k *Constants) any { return (*Duration)(&k.Eviction.Hold) }},
	{"preemption.retry_after", func(k *Constants) any { return (*Duration)(&k.Eviction.Retry) }},
	{"preemption.poll_interval", func(k *Constants) any { return (*Duration)(&k.Watch) }},
	{"preemption.zero_exit", func(*Constants) any { s := "requeue"; return &s }},
	{"retry.requeue", func(*Constants) any { v := true; return &v }},
	{"retry.per_job", func(k *Constants) any { return &k.Retries.PerJob }},
	{"retry.per_user_hour", func(k *Constants) any { return &k.Retries.PerUser }},
	{"retry.per_hour", func(k *Constants) any { return &k.Retries.PerHour }},
	{"retry.per_cycle", func(k *Constants) any { return &k.Retries.PerCycle }},
	{"retry.min_run", func(k *Constants) any { return (*Duration)(&k.Retries.Quick) }},
	{"retry.max_excluded_nodes", func(k *Constants) any { return &k.Retries.Exclude }},
	{"retry.suspect_users", func(k *Constants) any { return &k.Retries.Users }},
	{"retry.suspect_window", func(k *Constants) any { return (*Duration)(&k.Retries.Within) }},
	{"retry.max_drained", func(k *Constants) any { return &k.Retries.MaxDrained }},
	{"windows.margin", func(k *Constants) any { return (*Duration)(&k.Window.Margin) }},
	{"windows.pay", func(k *Constants) any { return &k.Window.Pay }},
	{"usage.idle_after", func(k *Constants) any { return (*Duration)(&k.Idle.After) }},
	{"limits.writes_per_cycle", func(k *Constants) any { return &k.Order.WritesPerCycle }},
	{"limits.agent_queue", func(k *Constants) any { return &k.Commands.AgentQueue }},
	{"limits.dbd_queue", func(k *Constants) any { return &k.Commands.DBDQueue }},
}

// seconds are read as a Duration is.
type seconds float64

func (s *seconds) UnmarshalText(text []byte) error {
	var d Duration
	err := d.UnmarshalText(text)
	*s = seconds(time.Duration(d).Seconds())
	return err
}

// constantOf is the constant that a key was of, nil for another key.
func constantOf(key string) *constant {
	if at := slices.IndexFunc(constants, func(k constant) bool { return k.key == key }); at >= 0 {
		return &constants[at]
	}
	return nil
}

// words are what a constant is, for people.
func (k *constant) words() string {
	rooms := constantsOfRooms()
	switch v := k.of(&rooms).(type) {
	case *Duration:
		text, _ := v.MarshalText()
		return string(text)
	case *seconds:
		text, _ := Duration(float64(*v) * float64(time.Second)).MarshalText()
		return string(text)
	default:
		return fmt.Sprint(reflect.ValueOf(v).Elem())
	}
}

// setConstants takes the keys of constants out of those that no setting has: priod goes on without them, with one line of advice each.
func (c *Config) setConstants(path, text string, undecoded []toml.Key) (unknown []toml.Key, err error) {
	said := map[string]bool{}
	for _, key := range undecoded {
		k := constantOf(key[:min(2, len(key))].String()) // a table in its place has keys of its own
		switch {
		case len(key) == 1 && slices.ContainsFunc(undecoded, func(other toml.Key) bool { return len(other) > 1 && other[0] == key[0] }):
			continue // a table of which no setting is left: its keys are looked at
		case k == nil:
			unknown = append(unknown, key)
			continue
		case said[k.key]:
			continue
		}
		if said[k.key] = true; Settable == "" {
			c.Advice = append(c.Advice, fmt.Sprintf("%s is a constant now (%s), and what the file says of it has no effect: remove it", k.key, k.words()))
		} else if err := c.assign(k, text); err != nil {
			return nil, unread(path, err)
		}
	}
	return unknown, nil
}

// assign gives a constant the value that a text in TOML has for its key.
func (c *Config) assign(k *constant, text string) error {
	table, name, _ := strings.Cut(k.key, ".")
	var all, keys map[string]toml.Primitive
	meta, err := toml.Decode(text, &all)
	if err == nil {
		err = meta.PrimitiveDecode(all[table], &keys)
	}
	if err == nil {
		err = meta.PrimitiveDecode(keys[name], k.of(&c.Constants))
	}
	return err
}
