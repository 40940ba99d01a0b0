// Package sql carries the database's migrations. The queries beside them are
// the source of priod/store/db.
package sql

import "embed"

// Migrations are goose migrations in the folder "migrations".
//
//go:embed migrations/*.sql
var Migrations embed.FS

// Moment are the views by which the queries answer of a moment, :at.
//
//go:embed moment.sql
var Moment string
