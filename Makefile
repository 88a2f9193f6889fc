# `make` lists the targets. They need Go and make; what else they use is fetched,
# pinned, into .cache.

VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ERRCHECK    := github.com/kisielk/errcheck@v1.30.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

# What `go test` gets besides, how long `make fuzz` spends on each target, and
# which benchmarks run.
TESTFLAGS ?=
FUZZTIME  ?= 10s
BENCH     ?= .

TOOLS := $(CURDIR)/.cache/tools

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 13

.PHONY: build
build: ## build bin/agentd
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/agentd ./cmd/agentd

.PHONY: run
run: build ## run the bot; settings come from the environment and .env
	./bin/agentd

.PHONY: demo
demo: build ## try the bot in a browser, without Telegram
	./bin/agentd demo

.PHONY: test
test: ## run the tests, in random order
	go test -shuffle=on $(TESTFLAGS) ./...

.PHONY: check
check: format lint vuln test race ## all that must hold before a commit: gofmt, linters, known holes, the tests, and again under the race detector

.PHONY: format
format:
	@files=$$(gofmt -l cmd internal migrations test) && if [ -n "$$files" ]; then echo "not formatted by gofmt:"; echo "$$files"; exit 1; fi

.PHONY: lint
lint: $(TOOLS)/staticcheck $(TOOLS)/errcheck
	go vet ./...
	$(TOOLS)/staticcheck ./...
	$(TOOLS)/errcheck ./...

.PHONY: vuln
vuln: $(TOOLS)/govulncheck
	.ci/vuln $(TOOLS)/govulncheck ./...

.PHONY: race
race: # without the crash matrix: hundreds of runs of what TestTranscripts runs once
	go test -race -shuffle=on -skip '^TestCrashMatrix$$' $(TESTFLAGS) ./...

.PHONY: bench
bench: ## measure speed and memory of the built program, against the targets
	go test -run '^$$' -bench '$(BENCH)' -benchtime 1x ./cmd/agentd

.PHONY: bench-parts
bench-parts: ## measure the packages, one by one
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./internal/...

.PHONY: fuzz
fuzz: ## look for inputs that break things, FUZZTIME=10s on each target
	@go list ./... | while read -r package; do \
		go test -list '^Fuzz' "$$package" | grep '^Fuzz' | while read -r target; do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package" || exit 1; \
		done || exit 1; \
	done

# They depend on this file, so that a changed version is fetched.
$(TOOLS)/staticcheck: Makefile
	GOBIN=$(TOOLS) go install $(STATICCHECK) && touch $@
$(TOOLS)/errcheck: Makefile
	GOBIN=$(TOOLS) go install $(ERRCHECK) && touch $@
$(TOOLS)/govulncheck: Makefile
	GOBIN=$(TOOLS) go install $(GOVULNCHECK) && touch $@
