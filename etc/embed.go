// Package etc holds the files that are installed beside the programs and
// serve as their defaults.
package etc

import "embed"

// Priod is priod.toml: every key, with its default.
//
//go:embed priod.toml
var Priod string

// ExplainSchema is the JSON Schema of what priod explain --json prints for one job.
//
//go:embed explain.schema.json
var ExplainSchema string

// Workloads is workloads.toml: the speeds that the papers' authors published.
//
//go:embed workloads.toml
var Workloads string

// Failures is failures.toml: why jobs fail, and what is done about each.
//
//go:embed failures.toml
var Failures string

// Hold is the file that the packages bring as /etc/slurmprio/hold.
//
//go:embed hold
var Hold string

// Lua are the files for Slurm's own hooks: slurm/prio.lua, slurm/job_submit.lua and slurm/cli_filter.lua.
//
//go:embed slurm/*.lua
var Lua embed.FS

// OpenAPI describes what priod web answers under /api/v1.
//
//go:embed openapi.json
var OpenAPI []byte
