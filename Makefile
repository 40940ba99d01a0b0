# make demo, make test: both install what they need and leave nothing behind.
GO      ?= $(or $(shell command -v go),/usr/local/go/bin/go)
PREFIX  ?= /usr/local
DESTDIR ?=
RELEASE  = $(shell sed -n 's/^const Release = "\(.*\)"/\1/p' slurmplug/prio/version.go)
VERSION ?= $(shell etc/package/version.sh $(RELEASE))
LDFLAGS  = -s -w -X main.version=$(VERSION)
BIN     ?= bin

.PHONY: demo test compile charts deps-browser test-properties test-rest test-race test-race-short roots test-smoke test-versions test-long test-short test-packages fuzz lint bench evidence evidence-weeks evidence-sizing screenshots build man install install-client install-daemon dist version deps help clean

build: ## both programs into bin/
	$(GO) build -ldflags "$(LDFLAGS)" -o $(BIN)/priod ./priod
	CGO_ENABLED=0 $(GO) build -ldflags "$(LDFLAGS)" -o $(BIN)/sbatchwrap ./sbatchwrap

deps: ## a C compiler, Slurm with its accounting, and promtool, from Debian's packages
	@tests/deps.sh

deps-browser: ## these and Chromium
	@tests/deps.sh browser

demo: deps build ## a small real Slurm, before and after priod
	@PATH="$(CURDIR)/bin:$(dir $(GO)):$$PATH" tests/lab/lab.sh run -- tests/demo.sh

test: deps-browser ## every test tier; a missing Slurm is a failure
	@$(MAKE) --no-print-directory -j2 roots compile
	@$(MAKE) --no-print-directory -j2 test-rest test-smoke lint test-properties test-race-short

# Half of a cold run is compiling: lint runs go vet once, no test needs what debuggers read, and SQLite with all
# optimizations takes a minute of CPU. make test-long and test-race compile as make build does.
QUICK = -vet=off
compile test-rest test-properties test-race-short test-smoke lint: export GOFLAGS += -ldflags=-s -gcflags=all=-dwarf=false
compile test-rest test-properties test-race-short test-smoke lint: export CGO_CFLAGS = -Og
# Fewer collections: a sixth less CPU for the compiler, a third less for staticcheck. Not for tests that measure a heap.
compile test-rest test-properties test-race-short test-smoke lint: export GOGC = 400

compile: # once: commands that run side by side would each compile the same
	$(GO) build ./...

# Chance hangs on the commit, so that a verdict on it stands; SEED=0 draws anew.
SEED       ?= 0x0$(shell git rev-parse --short=12 HEAD 2>/dev/null)
PROPERTIES  = $(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | sed -n '/rapid/s/ .*//p'

test-properties: ## the packages with properties of random input
	SLURMPRIO_REQUIRE_LAB=1 SLURMPRIO_REQUIRE_BROWSER=1 $(GO) test $(QUICK) -timeout 15m $$($(PROPERTIES)) -rapid.seed=$(SEED)

test-rest: ## all others, with the real Slurm; the longest first
	SLURMPRIO_REQUIRE_LAB=1 SLURMPRIO_REQUIRE_BROWSER=1 $(GO) test $(QUICK) -exec 'env -u GOGC' -p 3 -parallel 8 -timeout 40m ./tests $$($(GO) list ./... | grep -vxF -e slurmprio/tests -e "$$($(PROPERTIES))")

roots: ## as root: a Debian with Slurm 24.11 and one with the newest, in the cache folder
	@tests/versions.sh roots

test-smoke: ## the demo and some live tests on these
	@GO=$(GO) tests/versions.sh smoke

export RUN PACKAGES SUITES

test-versions: deps ## all tests on these; SUITES=sid RUN=TestX PACKAGES=./tests select
	@GO=$(GO) tests/versions.sh test

test-race: deps ## all that the daemon runs, and all tests with real daemons, under Go's race detector
	SLURMPRIO_REQUIRE_LAB=1 $(GO) test -race -timeout 60m $$($(GO) list ./priod/... ./slurmplug/... ./sbatchwrap | grep -v /simulate)
	SLURMPRIO_REQUIRE_LAB=1 SLURMPRIO_RACE=1 $(GO) test -count=1 -parallel 4 -timeout 60m ./tests

# What has goroutines beside each other and no SQLite, which takes a minute to compile anew. What is skipped reads texts, in one goroutine.
test-race-short: ## the part of test-race that make test runs
	$(GO) test $(QUICK) -race -short -skip 'Live|CutOffAnywhere|Recorded' ./priod/live ./slurmplug ./slurmplug/wake

FUZZ ?= 10000000x

test-long: deps ## the fault harness in full, after the tests; then FUZZ inputs for each parser
	SLURMPRIO_REQUIRE_LAB=1 SLURMPRIO_LONG=1 $(GO) test -count=1 -timeout 3h ./...
	GO=$(GO) tests/fuzz.sh $(FUZZ)

fuzz: ## FUZZ inputs for each parser, such as FUZZ=100000x
	GO=$(GO) tests/fuzz.sh $(FUZZ)

test-short: ## what needs no Slurm and little time
	$(GO) test -short ./...

# Of test code staticcheck takes another 100 s of CPU: make test leaves that to make lint alone.
test: export LINT_TESTS = false

lint: ## gofmt, go vet, staticcheck
	@files="$$(gofmt -l $$(git ls-files '*.go'))"; test -z "$$files" || { echo "not formatted: $$files"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck -tests=$(or $(LINT_TESTS),true) ./...

bench: deps ## figures, side by side with the bare Slurm command
	SLURMPRIO_REQUIRE_LAB=1 $(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./...

screenshots: deps-browser build ## docs/pages: the pages of a replay of a week, in Chromium
	SLURMPRIO_SCREENSHOTS=$(CURDIR)/docs/pages SLURMPRIO_REQUIRE_BROWSER=1 $(GO) test -count=1 ./tests -run '^TestScreenshots$$'

UPLOT = 1.6.32
AXE   = 4.14.1

charts: ## uPlot, which draws the figures, and axe-core, which tests the pages: fetched anew with npm
	d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && cd $$d && npm pack --silent uplot@$(UPLOT) axe-core@$(AXE) && \
	mkdir uplot axe && tar xzf uplot-$(UPLOT).tgz -C uplot && tar xzf axe-core-$(AXE).tgz -C axe && \
	cp uplot/package/dist/uPlot.iife.min.js uplot/package/dist/uPlot.min.css $(CURDIR)/priod/report/charts/ && cp uplot/package/LICENSE $(CURDIR)/priod/report/charts/LICENSE.uPlot && \
	cp axe/package/axe.min.js $(CURDIR)/tests/browser/testdata/ && cp axe/package/LICENSE $(CURDIR)/tests/browser/testdata/LICENSE.axe

DATA  ?=
SEEDS ?= 7 8 9

evidence: ## docs/evidence/all-four.md and its picture, half an hour on 2 cores; goes on after an interruption
	PATH="$(dir $(GO)):$$PATH" $(GO) run ./tests/evidence

evidence-weeks: ## docs/evidence/weeks.md, 20 minutes; DATA=FOLDER of public logs
	PATH="$(dir $(GO)):$$PATH" $(GO) run ./tests/evidence weeks --data "$(DATA)" --table markdown > docs/evidence/weeks.md.part
	mv docs/evidence/weeks.md.part docs/evidence/weeks.md

evidence-sizing: deps build ## the figures of docs/evidence/sizing.md and tests/papers/synergy.md; DATA=FOLDER of Synergy's traces; SEEDS= for no real Slurm
	PATH="$(CURDIR)/bin:$$PATH" GO=$(GO) docs/evidence/sizing.sh "$(DATA)" $(SEEDS)

man: ## the man pages, from the command tree and the option table
	$(GO) test ./priod/cli ./sbatchwrap -run TestManPage -args -update

install: install-client install-daemon ## all that the packages hold, under PREFIX

SHARE = $(DESTDIR)$(PREFIX)/share

install-client: build ## programs, completions and the users' man page: the package slurmprio-client
	rm -f $(DESTDIR)$(PREFIX)/sbin/priod # where it was once; root finds that one first
	install -D -m 0755 $(BIN)/priod $(DESTDIR)$(PREFIX)/bin/priod
	install -D -m 0755 $(BIN)/sbatchwrap $(DESTDIR)$(PREFIX)/bin/sbatchwrap
	install -D -m 0644 etc/man/sbatchwrap.1 $(SHARE)/man/man1/sbatchwrap.1
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	install -m 0644 etc/completion/priod.bash $(SHARE)/bash-completion/completions/priod
	install -m 0644 etc/completion/sbatchwrap.bash $(SHARE)/bash-completion/completions/sbatchwrap
	install -m 0644 etc/completion/_priod etc/completion/_sbatchwrap $(SHARE)/zsh/site-functions/
	install -m 0644 etc/completion/priod.fish etc/completion/sbatchwrap.fish $(SHARE)/fish/vendor_completions.d/
	install -D -m 0644 LICENSE $(SHARE)/doc/slurmprio-client/copyright
	test -e $(DESTDIR)/etc/slurmprio/hold || install -D -m 0644 etc/hold $(DESTDIR)/etc/slurmprio/hold

install-daemon: ## unit, user, example configuration, man page, boards, alerts, these pages: the package slurmprio
	install -D -m 0644 etc/priod.toml $(DESTDIR)/etc/slurmprio/priod.toml.example
	install -D -m 0644 etc/man/priod.8 $(SHARE)/man/man8/priod.8
	install -D -m 0644 etc/grafana/priod.json $(SHARE)/slurmprio/grafana/priod.json
	install -d $(SHARE)/slurmprio/prometheus $(SHARE)/slurmprio/slurm
	install -m 0644 etc/slurm/prio.lua etc/slurm/job_submit.lua etc/slurm/cli_filter.lua $(SHARE)/slurmprio/slurm/
	sed 's|/usr/local|$(PREFIX)|' etc/prometheus/priod.rules.yml | install -m 0644 /dev/stdin $(SHARE)/slurmprio/prometheus/priod.rules.yml
	install -D -m 0644 etc/systemd/output.conf $(SHARE)/slurmprio/systemd/output.conf
	install -d $(DESTDIR)/usr/lib/systemd/system
	sed 's|/usr/local|$(PREFIX)|' etc/systemd/priod.service | install -m 0644 /dev/stdin $(DESTDIR)/usr/lib/systemd/system/priod.service
	sed 's|/usr/local|$(PREFIX)|' etc/systemd/priod-value.service | install -m 0644 /dev/stdin $(DESTDIR)/usr/lib/systemd/system/priod-value.service
	install -m 0644 etc/systemd/priod-value.timer $(DESTDIR)/usr/lib/systemd/system/priod-value.timer
	install -D -m 0644 etc/systemd/priod.sysusers $(DESTDIR)/usr/lib/sysusers.d/priod.conf
	install -D -m 0644 etc/systemd/priod.tmpfiles $(DESTDIR)/usr/lib/tmpfiles.d/priod.conf
	install -D -m 0644 LICENSE $(SHARE)/doc/slurmprio/copyright
	install -m 0644 CHANGELOG.md $(SHARE)/doc/slurmprio/CHANGELOG.md
	cd docs && find . '(' -name '*.md' -o -name '*.png' ')' -exec install -D -m 0644 '{}' '$(SHARE)/doc/slurmprio/docs/{}' ';'

dist: ## tarballs, .deb and .rpm for amd64 and arm64, checksums and SBOMs into dist/
	@GO=$(GO) VERSION=$(VERSION) etc/package/dist.sh

test-packages: dist ## as root: installs, upgrades, removes and purges these in a clean Debian 12 and 13
	@GO=$(GO) tests/packages.sh

version: ## what builds and packages are called
	@echo $(VERSION)

help: ## the targets
	@awk -F':[^#]*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

clean:
	rm -rf bin dist
