package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// assignment is one KEY=VALUE of a command line.
type assignment struct{ key, value string }

// assignments reads KEY=VALUE of priod.toml, each key once.
func assignments(set []string) (all []assignment, err error) {
	for _, text := range set {
		key, value, found := strings.Cut(text, "=")
		a := assignment{strings.TrimSpace(key), strings.TrimSpace(value)}
		switch {
		case !found || a.key == "" || strings.ContainsAny(text, "\r\n"):
			return nil, fmt.Errorf("--set %.80q: want KEY=VALUE, such as preemption.enabled=true", text)
		case slices.ContainsFunc(all, func(b assignment) bool { return b.key == a.key }):
			return nil, fmt.Errorf("--set %s: given twice", a.key)
		}
		all = append(all, a)
	}
	return all, nil
}

// apply puts the value into the configuration.
func (a assignment) apply(c *Config) error {
	if k := constantOf(a.key); k != nil {
		if Settable == "" {
			return fmt.Errorf("--set %s=%s: it is a constant (%s)", a.key, a.value, k.words())
		}
		value, want := written(reflect.TypeOf(k.of(&c.Constants)).Elem(), a.value)
		if c.assign(k, a.key+" = "+value) != nil {
			return fmt.Errorf("--set %s=%s: want %s", a.key, a.value, want)
		}
		return nil
	}
	of, names := reflect.TypeFor[Config](), strings.Split(a.key, ".")
	for _, name := range names {
		of = part(of, name)
		if of == nil {
			return fmt.Errorf("--set %s=%s: unknown key %q%s", a.key, a.value, a.key, suggest(a.key))
		}
	}
	value, want := written(of, a.value)
	for i, name := range names {
		names[i] = strconv.Quote(name)
	}
	meta, err := toml.Decode(strings.Join(names, ".")+" = "+value, c)
	if err != nil {
		return fmt.Errorf("--set %s=%s: want %s", a.key, a.value, want)
	}
	c.note(meta, "--set")
	return nil
}

// part is the type of one key of a table, nil where there is none of that name.
func part(of reflect.Type, name string) reflect.Type {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of.Kind() {
	case reflect.Map:
		return of.Elem()
	case reflect.Struct:
		for f := range of.Fields() {
			if tag := f.Tag.Get("toml"); tag == name && tag != "" && tag != "-" {
				return f.Type
			}
		}
	}
	return nil
}

// written is a value in TOML, as a key of this type takes it, and what it wants in words.
func written(of reflect.Type, value string) (text, want string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	quoted := func(s string) string {
		if strings.HasPrefix(s, `"`) {
			return s
		}
		return strconv.Quote(s)
	}
	switch of.Kind() {
	case reflect.String:
		return quoted(value), "a text"
	case reflect.Bool:
		return value, "true or false"
	case reflect.Float64:
		if of == reflect.TypeFor[seconds]() {
			return quoted(value), "a time such as 90s, 5m or 30d"
		}
		if _, err := strconv.ParseInt(value, 10, 64); err == nil {
			value += ".0"
		}
		return value, "a number"
	case reflect.Slice:
		if strings.HasPrefix(value, "[") {
			return value, "a list"
		}
		var words []string
		for word := range strings.SplitSeq(value, ",") {
			if word = strings.TrimSpace(word); word != "" {
				text, _ = written(of.Elem(), word)
				words = append(words, text)
			}
		}
		return "[" + strings.Join(words, ", ") + "]", "a list such as a,b"
	case reflect.Int64:
		if of == reflect.TypeFor[Duration]() {
			return quoted(value), "a time such as 90s, 5m or 30d"
		}
		fallthrough
	case reflect.Int:
		return value, "a whole number"
	}
	return value, "a key of this table"
}
