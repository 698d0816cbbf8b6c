# The way in: `make demo` shows it, `make test` proves it, `make help` lists the rest.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
DEMO_PORT ?= 8080
DEMO_ADMIN_PORT ?= 9080
CARGO ?= cargo

.PHONY: help setup demo demo-clean test lint fmt

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what the build needs and this machine lacks
	@scripts/setup

demo: setup ## Build and run the gateway with the simulated provider
	$(CARGO) build --bin tollgate
	@exec "$${CARGO_TARGET_DIR:-target}/debug/tollgate" demo --port $(DEMO_PORT) --admin-port $(DEMO_ADMIN_PORT)

demo-clean: ## Remove the demo's state
	rm -rf .demo

fmt: ## Format the code
	$(CARGO) fmt --all

lint: setup ## Check format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

test: lint ## Everything that CI checks
	$(CARGO) test --workspace
