# One build mode: every target that runs tests uses -race and no tags, so that the
# build cache of one serves the others.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
FUZZTIME ?= 10s
BENCHTIME ?= 500ms
SUBSCRIBERS ?= 1000
LINT      = $(GO) tool -modfile=tools.mod golangci-lint

.PHONY: help build check test fuzz demo bench generate lint fmt tidy update clis conformance

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/plimsoll
	$(GO) build -o bin/plimsoll ./cmd/plimsoll

check: lint tidy ## what must hold before a commit: format, vet, lint, go.mod, tests with -race
	$(GO) test -race -timeout 25m ./...

test: clis check fuzz ## everything: the real programs, check, each fuzz target for FUZZTIME, the demo once
	$(MAKE) demo ONCE=1

clis: ## install the real programs that tests drive into .clis, unless they are there
	.ci/clis

fuzz: ## run each fuzz target for FUZZTIME (10s)
	.ci/fuzz $(FUZZTIME)

demo: build ## run the demo; ONCE=1 ends it after the story
	exec bin/plimsoll demo $(if $(ONCE),--once)

bench: ## run the benchmarks: packages, compaction, journal beside bare SQLite, idle streams
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...
	$(GO) run ./bench/journal
	$(GO) run ./bench/sse -n $(SUBSCRIBERS)
	$(GO) run ./bench/stream
	$(GO) run ./bench/runtime
	$(GO) run ./bench/turn

generate: ## write openapi.yaml from the methods
	$(GO) generate ./...

lint: ## format check, go vet, golangci-lint
	$(LINT) fmt --diff
	$(GO) vet ./...
	$(LINT) run

fmt: ## format the code
	$(LINT) fmt

tidy: ## fail if go.mod or go.sum is not what the code needs
	$(GO) mod tidy -diff

conformance: clis build ## write docs/conformance.md from the real programs
	PLIMSOLL_CODEX="$$PWD/.clis/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex" \
	PLIMSOLL_CLAUDE="$$PWD/.clis/node_modules/@anthropic-ai/claude-code-linux-x64/claude" \
	bin/plimsoll conform --markdown > bin/conformance.md && mv bin/conformance.md docs/conformance.md

update: ## rewrite the golden files; read the diff before you commit it
	.ci/update
