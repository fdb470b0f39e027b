# make demo runs a plan with scripted agents, make test runs the tests, make check runs what CI checks. make without a target
# lists all targets.

# The program needs no C compiler; only the race detector does.
export CGO_ENABLED = 0

GO         ?= go
FUZZTIME   ?= 60s
PREFIX     ?= /usr/local
GORELEASER ?= v2.14.3
VERSION    := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILD      := $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'
LONG_TESTS := test/fault cmd/signalbox internal/run/crew test/browser internal/run/workspace internal/core/journal/nats
PLATFORMS  := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64

.DEFAULT_GOAL := help
.PHONY: help build install test test-agents check format bench fault fuzz demo cross release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/signalbox
	$(BUILD) -o bin/signalbox ./cmd/signalbox

install: build ## install the program, its manual pages and its completions below PREFIX (/usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 755 bin/signalbox $(DESTDIR)$(PREFIX)/bin/signalbox
	bin/signalbox completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/signalbox
	bin/signalbox completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_signalbox
	bin/signalbox completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/signalbox.fish
	bin/signalbox manual $(DESTDIR)$(PREFIX)/share/man/man1

# The packages whose tests take longest start first. More run at the same time than there are processors, because they often
# wait for other programs. make check has run go vet. Go would reuse old results of the tests in test/, because it does not
# know that they run the program.
test: ## run all tests
	$(GO) build -ldflags '-s -w' -o bin/test/signalbox ./cmd/signalbox
	SIGNALBOX_TEST_PROGRAM=$(CURDIR)/bin/test/signalbox $(GO) test -count=1 -vet=off -ldflags='-s -w' -timeout 30m \
		-p $$((2 * $$(getconf _NPROCESSORS_ONLN))) $(LONG_TESTS:%=./%) ./...
	$(GO) -C test/bench test -count=1 -timeout 30m ./...

test-agents: ## run a plan with real agent programs, and attack those that review, without a network
	SIGNALBOX_AGENTS=$${SIGNALBOX_AGENTS:-all} $(GO) test -p 1 -count=1 -timeout 150m -v -run 'Agents|Documented|TestCapture' \
		./test/agents ./test/hostile

check: format ## run what CI checks: format, vet, staticcheck, go.mod, tests under the race detector
	$(GO) vet ./...
	$(GO) -C test/bench vet ./...
	$(GO) tool staticcheck ./...
	cd test/bench && $$($(GO) -C ../.. tool -n staticcheck) ./...
	$(GO) mod tidy -diff
	$(GO) -C test/bench mod tidy -diff
	@scripts/race-test

format:
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:" >&2; echo "$$unformatted" >&2; exit 1; fi

bench: ## compare the speed with other programs, then run the Go benchmarks
	-@scripts/need rg
	$(GO) -C test/bench run .
	$(GO) test -run '^$$' -bench . ./...

fault: ## run the full fault tests, which kill, race, tamper with, starve and attack the real program, on every database (over an hour)
	SIGNALBOX_FAULT=full $(GO) test -count=1 -timeout 150m -v ./test/fault ./test/hostile
	SIGNALBOX_FAULT=full $(GO) test -count=1 -timeout 30m -v -run 'TestReplacedLeader|TestLateMessages' ./internal/core/journal/nats

fuzz: ## run every fuzz target for FUZZTIME (60s) each, and the property tests with random cases
	@scripts/fuzz $(FUZZTIME)

demo: build ## run a plan with rehearsal agents in a temporary repository
	@scripts/need git
	@bin/signalbox demo

cross: ## build for every platform into dist/, with the licences of all linked modules
	@set -e; for platform in $(PLATFORMS); do \
		os=$${platform%/*} arch=$${platform#*/} ext=; \
		if [ $$os = windows ]; then ext=.exe; fi; \
		echo "dist/signalbox-$$os-$$arch$$ext"; \
		GOOS=$$os GOARCH=$$arch $(BUILD) -o dist/signalbox-$$os-$$arch$$ext ./cmd/signalbox; \
	done
	$(GO) run ./scripts/licenses dist/THIRD_PARTY_LICENSES
	cp LICENSE dist/

release: ## build the archives of a release into dist/, without publishing them
	$(GO) run github.com/goreleaser/goreleaser/v2@$(GORELEASER) release --snapshot --clean

clean: ## remove bin/ and dist/
	rm -rf bin dist
