# Each target is one promise; CI runs the same ones (.ci/run).
# ARGS are the options of sim, soak, differ, bench and mutants: make sim ARGS=-help lists those of sim, after the flags of go test.

GO       ?= go
ARGS     ?=
FUZZTIME ?= 60s
# How many packages at a time: one more than the processors of a small machine, for those that wait for a server.
PARALLEL ?= 3
# Longer than any package needs with the race detector on two cores, shorter than a CI job's patience.
TIMEOUT  ?= 6m

# The tools' own requirements stay in a nested module, so that importers of zklocks never see them.
TOOL  = $(GO) tool -modfile=tools/go.mod
# What ARGS mean for a run that is a test: -race is for go test, everything else for the test's program.
RUN   = $(GO) test -v -count=1 $(filter -race,$(ARGS))
FLAGS = $(filter-out -race,$(ARGS))

# Here a test that needs a real server fails where none is installed. Without this it is skipped, as in a plain go test.
test soak differ interop mutants bench: export ZKLOCKS_REAL = 1

.PHONY: help demo quick test lint zookeeper fuzz sim soak differ interop mutants bench binaries packages vulncheck tidy
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

# SERVERS=host:port,... runs the examples on these.
demo: ## run every example on an in-memory ZooKeeper, or on SERVERS; needs nothing but Go
	@echo "Compiling, which takes a minute the first time."
	@$(GO) run ./examples/demo $(if $(SERVERS),-servers '$(SERVERS)')

quick: ## go test ./... in memory, also in metrics, a minute and a half; says what was left out
	@mkdir -p bin && rm -f bin/left-out && touch bin/left-out; failed=0; \
	for dir in . metrics; do ZKLOCKS_LEFT_OUT="$(CURDIR)/bin/left-out" $(GO) test -C $$dir -count=1 ./... || failed=1; done; \
	echo "Left out: $$(wc -l <bin/left-out) tests that need a real ZooKeeper, which make test installs, and the other modules, such as cmd/zklock."; exit $$failed

test: zookeeper ## run all tests with the race detector, against real servers; PKG=./rwlock: only those
	@start=$$(date +%s); env GO="$(GO)" TIMEOUT=$(TIMEOUT) PARALLEL=$(PARALLEL) PKG="$(PKG)" scripts/test.sh && printf 'ok  \tall packages\t%ds\n' $$(($$(date +%s) - start))

lint: ## gofmt, fit of the mutants, go vet, staticcheck, go mod tidy and verify, nested modules, too; workflows; the API since the last tag
	@GO="$(GO)" scripts/lint.sh

zookeeper: ## install the ZooKeeper server that the tests start, unless it is there or ZK_SERVERS is set
	@scripts/zookeeper.sh

fuzz: ## run each fuzz target for FUZZTIME (60s)
	@GO="$(GO)" scripts/fuzz.sh $(FUZZTIME)

sim: ## lock for a minute in virtual time, in memory, while hosts, packets, members and sessions are broken; Go alone is enough
	@overlay=$$($(GO) run ./internal/test/yields/overlay) && $(RUN) -timeout 0 -overlay "$$overlay" -run 'TestExplore$$' ./internal/test/explore -args -for 1m $(FLAGS)

soak: zookeeper ## lock for a minute on three real servers and in real processes, while all of them break; -kind takeover, moves or leaks: what random faults cannot show
	@$(RUN) -timeout 0 -run 'TestSoak$$' ./internal/test/$(if $(filter takeover moves leaks,$(subst =, ,$(ARGS))),soak,explore) -args -kind hammer -for 1m $(FLAGS)

differ: zookeeper ## play 10,000 random sequences of requests on the server in memory and on a real one, and compare
	@$(RUN) -timeout 120m -run 'TestDiffer$$' ./internal/test/differ -args -n 10000 $(FLAGS)

interop: zookeeper ## share locks with Curator (Java), kazoo (Python) and zk.Lock, on a real server and in memory: all must exclude each other; connect with a Kerberos KDC
	@scripts/peers.sh
	INTEROP=1 $(GO) test -race -count=1 -timeout $(TIMEOUT) -v ./internal/test/interop
	cd kerberos && INTEROP=1 $(GO) test -race -count=1 -timeout $(TIMEOUT) -v -run Real .

mutants: zookeeper ## check that each of some 40 bugs fits the code, then that a test finds it; -generate draws others
	@$(GO) run ./internal/test/mutants $(ARGS)

bench: zookeeper ## measure our locks next to zk.Lock and, where installed, Curator and kazoo: one server, a table
	@$(RUN) -timeout 180m -run 'TestBench$$' ./internal/test/bench -args -rounds 12 $(FLAGS)

binaries: ## build zklock for Linux and macOS, reproducibly, into bin/release; CHECK=1: twice, and compare
	@GO="$(GO)" scripts/binaries.sh $(if $(CHECK),-check)

packages: ## build zklock as .deb, .rpm and .apk into bin/packages, and try them where the system can
	@GO="$(GO)" scripts/packages.sh

vulncheck: ## look for known vulnerabilities, in nested modules, too; needs the Go vulnerability database
	@for dir in . cmd/zklock examples/gocron examples/metrics kerberos examples/tracing metrics; do echo "govulncheck, $$dir"; $(TOOL) govulncheck -C $$dir ./... || exit 1; done

tidy: ## bring go.mod and go.sum up to date, in nested modules, too
	@find . -name go.mod -print | while read -r f; do (cd "$$(dirname "$$f")" && GO="$(GO)" "$(CURDIR)/scripts/tidy.sh") || exit 1; done
