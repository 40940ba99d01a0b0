// Package report renders what the store and the plans hold: tables for people,
// JSON for programs. Text that came from users never reaches a terminal
// unescaped.
package report

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table writes rows under a header, columns aligned, numbers to the right.
func Table(w io.Writer, header []string, rows [][]any) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleDefault
	style.Options = table.Options{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	head := make(table.Row, len(header))
	for i, h := range header {
		head[i] = h
	}
	t.AppendHeader(head)
	for _, r := range rows {
		row := make(table.Row, len(r))
		for i, cell := range r {
			if s, ok := cell.(string); ok {
				cell = Safe(s)
			}
			row[i] = cell
		}
		t.AppendRow(row)
	}
	t.SuppressTrailingSpaces()
	t.Render()
}

// JSON writes one object, indented, and a newline: of several, their keys in turn. An empty list is [] and never null.
func JSON(w io.Writer, all ...any) error {
	var b bytes.Buffer
	for _, v := range all {
		list(reflect.ValueOf(&v).Elem())
		var part bytes.Buffer
		e := json.NewEncoder(&part)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false) // for programs and terminals, not for pages
		if err := e.Encode(v); err != nil {
			return err
		}
		if text := part.String(); b.Len() == 0 {
			b.WriteString(text)
		} else if keys, some := strings.CutPrefix(text, "{\n"); some { // an empty one adds nothing
			b.Truncate(b.Len() - len("\n}\n"))
			b.WriteString(",\n" + keys)
		}
	}
	_, err := io.WriteString(w, SafeJSON(b.String()))
	return err
}

// list replaces each nil list or map by an empty one, and copies
// what it changes: the caller's values stay as they are. What marshals itself is
// left alone.
func list(v reflect.Value) {
	t, copied := v.Type(), reflect.Value{}
	if t.Implements(marshaler) || t.Implements(textMarshaler) || v.Kind() != reflect.Struct && !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return
		}
		inner := reflect.New(v.Elem().Type())
		inner.Elem().Set(v.Elem())
		list(inner.Elem())
		if copied = inner; v.Kind() == reflect.Interface {
			copied = inner.Elem()
		}
	case reflect.Struct:
		for i := range t.NumField() {
			list(v.Field(i))
		}
		return
	case reflect.Array:
		for i := range v.Len() {
			list(v.Index(i))
		}
		return
	case reflect.Slice:
		copied = reflect.MakeSlice(t, v.Len(), v.Len())
		reflect.Copy(copied, v)
		for i := range v.Len() {
			list(copied.Index(i))
		}
	case reflect.Map:
		copied = reflect.MakeMapWithSize(t, v.Len())
		for k, x := range v.Seq2() {
			inner := reflect.New(t.Elem()).Elem()
			inner.Set(x)
			list(inner)
			copied.SetMapIndex(k, inner)
		}
	default:
		return
	}
	v.Set(copied)
}

var marshaler, textMarshaler = reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()

// SafeJSON escapes what stands in JSON and could upset a terminal, as JSON
// does: DEL, the C1 controls and format characters may stand there raw.
func SafeJSON(s string) string {
	unsafe := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	if !strings.ContainsFunc(s, unsafe) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !unsafe(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Safe makes text from users fit for a terminal: control and format characters
// (escape sequences, newlines, bidirectional marks) and broken UTF-8 appear as
// escapes.
func Safe(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !printable(r) }) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], string(unicode.ReplacementChar)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case printable(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

func printable(r rune) bool { return r != unicode.ReplacementChar && unicode.IsPrint(r) }

// Ago renders a span of time as people say it: "45s", "12m", "3h05m", "2d04h".
func Ago(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s < 0:
		return "-" + Ago(-d)
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s%86400/3600)
}

// Seconds is Ago of so many.
func Seconds(s float64) string { return Ago(time.Duration(s * float64(time.Second))) }

// Known is a figure in words; "-": it is not known.
func Known[T any](v *T, words func(T) string) string {
	if v == nil {
		return "-"
	}
	return words(*v)
}

// Between says of which time an answer is.
func Between(since, until time.Time) string {
	return "From " + Clock(since) + " to " + Clock(until)
}

// Fixed is a number with so many decimals, without a sign where it rounds to 0.
func Fixed(decimals int) func(v float64) string {
	return func(v float64) string {
		scale := math.Pow10(decimals)
		return strconv.FormatFloat(math.Round(v*scale)/scale+0, 'f', decimals, 64)
	}
}

// Percent is a part in whole percents.
func Percent(part float64) string { return Fixed(0)(100*part) + " %" }

// Clock is a time of this machine's zone; "": none.
func Clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// Plural is a number of things.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Count is a number of things whose name takes an s.
func Count(n int, thing string) string { return Plural(n, thing, thing+"s") }

// longestName is how much of a name is shown, in characters.
const longestName = 40

// Name is a name as it stands in a table, cut where it is very long.
func Name(s string) string {
	s = Safe(s)
	if utf8.RuneCountInString(s) <= longestName {
		return s
	}
	return string([]rune(s)[:longestName-1]) + "…"
}
