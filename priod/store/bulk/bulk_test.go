package bulk

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-sqlite3"
	"pgregory.net/rapid"
)

var ctx = context.Background()

func open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "db")+"?_foreign_keys=on")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE t (n INTEGER NOT NULL, b INTEGER NOT NULL, f REAL NOT NULL, s TEXT NOT NULL, UNIQUE (n)) STRICT"); err != nil {
		t.Fatal(err)
	}
	return db
}

type row struct {
	N int64
	B bool
	F float64
	S string
}

const insert = "INSERT INTO t (n, b, f, s) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (n) DO UPDATE SET s = excluded.s"

// What rows held comes back, whatever it is.
func TestRows(t *testing.T) {
	db := open(t)
	rapid.Check(t, func(t *rapid.T) {
		if _, err := db.Exec("DELETE FROM t"); err != nil {
			t.Fatal(err)
		}
		text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.RuneFrom([]rune{0, '\'', '?', ';'})))
		want := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) row {
			return row{rapid.Int64().Draw(t, "n"), rapid.Bool().Draw(t, "b"), rapid.Float64().Draw(t, "f"), text.Draw(t, "s")}
		}), func(r row) int64 { return r.N }).Draw(t, "rows")
		var rows Rows
		for i := range want {
			if err := rows.Add(&want[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Run(ctx, db, insert); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := db.QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil || n != len(want) {
			t.Fatal(n, "of", len(want), err)
		}
		for _, w := range want {
			got := row{N: w.N}
			if err := db.QueryRow("SELECT b, f, s FROM t WHERE n = ?", w.N).Scan(&got.B, &got.F, &got.S); err != nil || got != w {
				t.Fatal(got, w, err)
			}
		}
	})
}

// A statement of one parameter takes it alone.
func TestOneParameter(t *testing.T) {
	db := open(t)
	var rows, gone Rows
	for i := range int64(3) {
		if err := errors.Join(rows.Add(&row{N: i}), gone.Add(&i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(rows.Run(ctx, db, insert), gone.Run(ctx, db, "DELETE FROM t WHERE n = ?")); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil || n != 0 {
		t.Error(n, err)
	}
}

// What is wrong with a row is SQLite's own error, and a transaction takes back the ones before it.
func TestErrors(t *testing.T) {
	db := open(t)
	if _, err := db.Exec("CREATE TABLE child (n INTEGER NOT NULL REFERENCES t (n) ON DELETE CASCADE) STRICT"); err != nil {
		t.Fatal(err)
	}
	one := func(n int64) *Rows {
		r := &Rows{}
		if err := errors.Join(r.Add(&row{N: 1}), r.Add(&row{N: n, F: 2})); err != nil {
			t.Fatal(err)
		}
		return r
	}
	cut := one(2)
	cut.bytes = cut.bytes[:len(cut.bytes)-1]
	odd := one(2)
	odd.bytes[0] = 'x'
	long := Rows{}
	if err := long.Add(&struct{ S string }{"text"}); err != nil {
		t.Fatal(err)
	}
	long.bytes[1]++
	child := &Rows{}
	n := int64(7)
	if err := child.Add(&n); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rows      *Rows
		statement string
		code      sqlite3.ErrNo
		extended  sqlite3.ErrNoExtended
		words     string
	}{
		"not unique":            {one(1), "INSERT INTO t (n, b, f, s) VALUES (?, ?, ?, ?)", sqlite3.ErrConstraint, sqlite3.ErrConstraintUnique, "UNIQUE constraint failed: t.n"},
		"no parent":             {child, "INSERT INTO child VALUES (?)", sqlite3.ErrConstraint, sqlite3.ErrConstraintForeignKey, "FOREIGN KEY"},
		"no such table":         {one(2), "INSERT INTO u VALUES (?)", sqlite3.ErrError, 0, "no such table: u"},
		"no parameters":         {one(2), "DELETE FROM t", sqlite3.ErrMisuse, 0, "for_each_row"},
		"no statement":          {one(2), "", sqlite3.ErrMisuse, 0, "for_each_row"},
		"a row is cut":          {cut, insert, sqlite3.ErrMisuse, 0, "for_each_row"},
		"an unknown kind":       {odd, insert, sqlite3.ErrMisuse, 0, "for_each_row"},
		"a text beyond the end": {&long, "DELETE FROM t WHERE s = ?", sqlite3.ErrMisuse, 0, "for_each_row"},
	} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		c.rows.n = few + 1 // with one call
		err = c.rows.Run(ctx, tx, c.statement)
		var e sqlite3.Error
		if !errors.As(err, &e) || e.Code != c.code || c.extended != 0 && e.ExtendedCode != c.extended || !strings.Contains(fmt.Sprint(err), c.words) {
			t.Errorf("%s: %v", name, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var rows int
		if err := db.QueryRow("SELECT count(*) FROM t").Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%s: %d rows, %v", name, rows, err)
		}
	}
	if err := (&Rows{}).Add(&struct{ At any }{}); err == nil {
		t.Error("a field of any type")
	}
	if err := (&Rows{}).Run(ctx, db, "nonsense"); err != nil {
		t.Error("no rows: ", err)
	}
}

// No view and no trigger of a database that somebody else made can call the function.
func TestOnlyDirectly(t *testing.T) {
	db := open(t)
	if _, err := db.Exec("CREATE VIEW v AS SELECT for_each_row('DELETE FROM t WHERE n = ?', x'')"); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow("SELECT * FROM v").Scan(new(any)); err == nil || !strings.Contains(err.Error(), "unsafe use") {
		t.Error(err)
	}
}
