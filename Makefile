# `make demo` runs the gateway, `make test` checks it, `make help` lists the other targets.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

ifneq ($(strip $(MAKEFILE_LIST)),Makefile)
# From another folder (`make -f PATH/Makefile`): everything runs in the folder of this file.
$(or $(MAKECMDGOALS),help):
	@$(MAKE) --no-print-directory -C "$(dir $(lastword $(MAKEFILE_LIST)))" -f Makefile $@

.PHONY: $(or $(MAKECMDGOALS),help)
else

CARGO ?= cargo
PYTHON ?= python3
DEMO_PORT ?= 8080
DEMO_ADMIN_PORT ?= 9080
# The folder of its keys and its ledger.
DEMO_STATE ?= .demo
# The first port of `make demo-cluster`, and its folder.
CLUSTER_PORT ?= 8080
CLUSTER_STATE ?= .demo-cluster
# Where `make install` puts the program: PREFIX/bin.
PREFIX ?= /usr/local
# The program that `make package` packs. Default: that of `make release`.
PROGRAM ?=
# More arguments for `make bench-load`, such as "--json run.json --only 1k,latency", and for `make test-clients`.
BENCH_ARGS ?=
PYTEST_ARGS ?=
# How often `make test-crash` kills.
CRASH_ROUNDS ?= 50
# How many faults `make test-cluster` draws.
CLUSTER_ROUNDS ?= 200
# How many corruptions `make test-corruption` tries.
CORRUPTIONS ?= 20000
# Of how many records `make test-history` asks for pages.
HISTORY_ROWS ?= 10000000
# How long `make test-soak` takes, besides building.
SOAK_SECONDS ?= 1800
# How often `make test-upgrade` reloads and upgrades.
RELOAD_ROUNDS ?= 100
UPGRADE_ROUNDS ?= 10
# How many rounds `make test-overload` measures, of two pairs each.
OVERLOAD_ROUNDS ?= 5
# How long `make test-fuzz` runs each target; after how many seconds of CPU without new coverage
# `make fuzz-until-dry` ends.
FUZZ_SECONDS ?= 60
FUZZ_DRY ?= 1200
TARGET = "$${CARGO_TARGET_DIR:-target}"
CLIENTS := tests/clients
PACKAGES := tests/packages

.PHONY: help setup build release package install demo demo-cluster demo-clean fmt lint test test-crash test-cluster test-corruption test-history test-soak test-upgrade test-overload test-packages test-patches test-fuzz fuzz-until-dry test-clients test-dashboard bench bench-load bench-counts bench-growth bench-instructions eval-count translation-news docs deny

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what the build needs and this machine lacks
	@scripts/setup

build: setup ## Build the gateway, the way that the demo and the tests run it
	@[ -e $(TARGET)/debug/tollgate ] || echo "The first build compiles some 380 crates: six to eight minutes on two cores. Later builds take seconds."
	$(CARGO) build --bin tollgate --features demo

# The program of `make release`, or PROGRAM=...
package: setup ## Build the packages of a release: Debian, container image, chart, bill of materials
	@scripts/setup packages
	PROGRAM="$(PROGRAM)" scripts/package

# Some twenty minutes on two cores.
release: ## Build the gateway for production, optimised by what it serves
	@scripts/setup release
	@CARGO="$(CARGO)" scripts/release

install: ## Install the newest program that `make release` or `make build` has built into PREFIX/bin
	@program=$$(ls -t $(TARGET)/{profiled,debug}/tollgate 2>/dev/null | head -n 1 || true); \
	[ -z "$$program" ] || exec install -D -m 755 "$$program" "$(DESTDIR)$(PREFIX)/bin/tollgate"; \
	echo "there is no program to install: run make release or make build first" >&2; exit 1

# Before the build, which can take minutes.
define port_is_free
	@if (exec 3<>"/dev/tcp/127.0.0.1/$($(1))") 2>/dev/null; then \
		echo "port $($(1)) is in use: choose another one, for example make demo $(1)=$$(($($(1)) + 1))" >&2; exit 1; \
	fi
endef

demo: ## Run the gateway with the simulated provider
	$(call port_is_free,DEMO_PORT)
	$(call port_is_free,DEMO_ADMIN_PORT)
	@$(MAKE) --no-print-directory build
	@exec $(TARGET)/debug/tollgate demo --port $(DEMO_PORT) --admin-port $(DEMO_ADMIN_PORT) --state-dir "$(DEMO_STATE)"

demo-cluster: build ## Run three gateways on one PostgreSQL database behind nginx, with the simulated provider
	@scripts/setup tests
	@CLUSTER_PORT=$(CLUSTER_PORT) CLUSTER_STATE="$(CLUSTER_STATE)" exec scripts/demo-cluster $(TARGET)/debug/tollgate

demo-clean: ## Remove the state of the demos
	rm -rf "$(DEMO_STATE)" "$(CLUSTER_STATE)"

fmt: ## Format the code
	$(CARGO) fmt --all

lint: setup ## Check format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

# Without nginx, Prometheus or PostgreSQL the tests that need them say that they are skipped.
test: lint ## Everything that CI checks
	@scripts/setup tests || echo "tools of the tests are missing: the tests against nginx, Prometheus and PostgreSQL are SKIPPED, the tests of the documentation need curl and openssl"
	$(CARGO) test --workspace

test-crash: setup ## Kill the gateway under load, fifty times over
	TOLLGATE_CRASH_ROUNDS=$(CRASH_ROUNDS) $(CARGO) test --workspace --test alone -- --nocapture crash::

# Some twenty minutes. It needs root, for network namespaces. TOLLGATE_CLUSTER_SEED repeats a run's faults.
test-cluster: setup ## Partition, kill, stop and promote gateways and their database, two hundred times over
	@scripts/setup tests
	TOLLGATE_CLUSTER_ROUNDS=$(CLUSTER_ROUNDS) $(CARGO) test --workspace --test alone -- --nocapture cluster::

# TOLLGATE_CORRUPTION_SEED repeats a run, by the seed that it prints.
test-corruption: setup ## Damage the ledger's files at random: nothing is lost unnoticed
	TOLLGATE_CORRUPTIONS=$(CORRUPTIONS) $(CARGO) test --package tollgate-ledger --lib -- --nocapture corruption

# Minutes, and some gigabytes in the folder for temporary files (TMPDIR): HISTORY_ROWS=100000000 needs 33 GB and
# half an hour.
test-history: setup ## A page of a history of ten million records comes within 20 ms
	TOLLGATE_HISTORY_ROWS=$(HISTORY_ROWS) $(CARGO) test --workspace --lib -- --ignored --nocapture --test-threads 1 long_history

test-soak: setup ## Mixed load with faults for half an hour: nothing grows, everything adds up
	TOLLGATE_SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) test --workspace --test alone -- --nocapture soak::

test-upgrade: setup ## Reload and upgrade under load, a hundred and ten times over
	TOLLGATE_RELOADS=$(RELOAD_ROUNDS) TOLLGATE_UPGRADES=$(UPGRADE_ROUNDS) $(CARGO) test --workspace --test it -- --nocapture no_request_notices

test-overload: setup ## A thousand slow callers, slowhttptest's too: what they cost other callers, measured
	@scripts/setup overload
	TOLLGATE_OVERLOAD_ROUNDS=$(OVERLOAD_ROUNDS) $(CARGO) test --workspace --test alone -- --ignored --nocapture slow::

# With a program of the development profile, stripped. It needs root: it makes a new Debian and mounts.
test-packages: build $(PACKAGES)/.venv/installed ## Build the packages twice, install and run them, let Helm render the chart
	$(PACKAGES)/.venv/bin/python $(PACKAGES)/test.py "$(TARGET)/debug/tollgate"

# Some five minutes, most of them for building.
test-patches: setup ## Run Pingora's own tests of what third_party changes
	@CARGO="$(CARGO)" scripts/third-party check
	@CARGO="$(CARGO)" scripts/third-party test

# The first build takes some ten minutes; FUZZ_TARGETS="stream body" FUZZ_FEATURES= is quicker.
test-fuzz: setup ## Run each fuzz target for a minute
	@scripts/setup fuzz
	@scripts/fuzz-seeds
	@CARGO="$(CARGO)" FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz

# Takes hours. It continues where it was stopped.
fuzz-until-dry: setup ## Run each fuzz target until twenty minutes of CPU bring no new coverage
	@scripts/setup fuzz
	@scripts/fuzz-seeds
	@CARGO="$(CARGO)" FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_DRY=$(FUZZ_DRY) scripts/fuzz

test-clients: build $(CLIENTS)/.venv/installed $(CLIENTS)/node_modules/.installed ## Drive the official SDKs and agents
	@$(CLIENTS)/.venv/bin/pytest $(CLIENTS) $(PYTEST_ARGS)

# These are in folders that git ignores, and are rebuilt when the pinned versions change.
# Not `npm ci`: it needs the agents' binaries for every platform, and mirrors lack some of them.
$(CLIENTS)/.venv/installed $(PACKAGES)/.venv/installed: %/.venv/installed: %/requirements.txt
	@scripts/setup $(notdir $*)
	rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(CLIENTS)/node_modules/.installed: $(CLIENTS)/package.json $(CLIENTS)/package-lock.json
	@scripts/setup clients
	cd $(CLIENTS) && npm install --no-save --no-audit --no-fund --loglevel=error
	@touch $@

DASHBOARD := tests/dashboard

# Needs Chromium; the screenshots are in target/dashboard.
test-dashboard: setup $(DASHBOARD)/node_modules/.installed ## Open the dashboard in Chromium, narrow and wide, light and dark
	DASHBOARD_SHOTS="$$(realpath -m $(TARGET))/dashboard" $(CARGO) test --workspace --test it -- --ignored --nocapture dashboard::

$(DASHBOARD)/node_modules/.installed: $(DASHBOARD)/package.json $(DASHBOARD)/package-lock.json
	cd $(DASHBOARD) && npm install --no-save --no-audit --no-fund --loglevel=error
	@touch $@

bench: setup ## Measure: micro-benchmarks, then the comparison of bench-load
	$(CARGO) bench --workspace --bench '*'
	@$(MAKE) --no-print-directory bench-load

bench-load: setup ## Compare the gateway with other proxies in one run
	$(CARGO) build --release --package tollgate --package tollgate-load --features demo
	@exec $(TARGET)/release/tollgate-load $(BENCH_ARGS)

bench-counts: setup ## Measure how long 26 token counts at once take
	$(CARGO) build --release --package tollgate --package tollgate-load --features demo
	@exec $(TARGET)/release/tollgate-load counts $(BENCH_ARGS)

# Some ten minutes, most of them for the history. BENCH_ARGS="--only keys,models" is quicker.
bench-growth: setup ## Measure how cost, memory and start grow with keys, models, history and streams
	$(CARGO) build --release --package tollgate --package tollgate-load --features demo
	@exec $(TARGET)/release/tollgate-load growth $(BENCH_ARGS)

bench-instructions: setup ## Count the instructions for a request and for an event, under Valgrind
	$(CARGO) build --release --package tollgate --package tollgate-load --features demo
	@scripts/instructions $(TARGET)/release $(BENCH_ARGS)

eval-count: setup ## Compare counts with what providers reported, by the recordings in TOLLGATE_FIXTURES
	$(CARGO) run --release --package tollgate-count --example evaluate

# In a separate folder, so that the newest SDKs do not mix with the pinned ones.
translation-news: ## Report request fields that newer SDKs have and the translation does not know
	@venv=$$(mktemp -d) && trap 'rm -rf "$$venv"' EXIT && $(PYTHON) -m venv "$$venv" && \
	"$$venv/bin/pip" install --quiet --disable-pip-version-check --upgrade openai anthropic && \
	"$$venv/bin/python" scripts/translation-fields --news

docs: ## Build the documentation as a site, in target/docs
	@scripts/setup docs
	@scripts/docs $(TARGET)/docs

# No package registry has a copy of the advisory database: cargo-deny clones it.
deny: ## Check licences, bans, sources and advisories of the dependencies
	@scripts/setup deny
	@$(CARGO) deny check licenses bans sources
	@if $(CARGO) deny fetch db; then $(CARGO) deny check advisories; \
	else echo "the advisory database cannot be fetched: advisories are NOT CHECKED"; fi

endif
