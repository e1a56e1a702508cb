# Each target is one promise; CI runs the same ones (.ci/run).

GO       ?= go
FUZZTIME ?= 60s
# How many packages at a time: one more than the processors of a small machine, for those that wait for a server.
PARALLEL ?= 3
# Longer than any package needs with the race detector on two cores, shorter than a CI job's patience.
TIMEOUT  ?= 6m

# The tools' own requirements stay in a nested module, so that importers of zklocks never see them.
TOOL = $(GO) tool -modfile=tools/go.mod

# Everything but the programs and what only tests use.
COVERED = $$($(GO) list ./... | grep -vE '/(examples|internal/test)(/|$$)' | paste -sd, -)

# Here a test that needs a real server fails where none is installed. Without this it is skipped, as in a plain go test.
test again hammer takeover failover mutants interop differ stress stress-broken lost-replies leaks bench bench-against ablation bench-report cover: export ZKLOCKS_REAL = 1

.PHONY: help demo quick test test-without-java again hammer takeover failover mutants mutants-explored interop versions explore differ stress stress-broken lost-replies leaks bench bench-against ablation bench-local bench-report lint zookeeper metrics binaries fuzz vulncheck cover timeline recording tidy clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

# SERVERS=host:port,... runs the examples on these.
demo: ## run every example on an in-memory ZooKeeper, or on SERVERS; needs nothing but Go
	@echo "Compiling, which takes a minute the first time."
	@$(GO) run ./examples/demo $(if $(SERVERS),-servers '$(SERVERS)')

quick: ## go test ./... with what is installed; says how many tests were left out
	@$(GO) run ./internal/test/suite quick

test-without-java: ## make quick as where neither Java nor a C compiler is installed
	@scripts/without-java.sh

SUITE = env GO="$(GO)" TIMEOUT=$(TIMEOUT) PARALLEL=$(PARALLEL) PKG="$(PKG)" scripts/test.sh

test: zookeeper ## run all tests with the race detector, against real servers; PKG=./rwlock: only those
	@start=$$(date +%s); $(SUITE) && printf 'ok  \tall packages\t%ds\n' $$(($$(date +%s) - start))

# N runs, beside BUSY processes that use a processor each. LOGS is where the logs of failed runs go, in place of a temporary directory.
N    ?= 50
BUSY ?= 2

again: zookeeper ## run all tests N (50) times on a busy machine; a table of what failed. PKG=./internal/wire: only those
	@$(GO) build -o bin/suite ./internal/test/suite
	@bin/suite again -n $(N) -busy $(BUSY) -logs "$(LOGS)" -- $(SUITE) -json

hammer: zookeeper ## 20 processes x 50 goroutines fight for each recipe for 20 s; their record is checked
	HAMMER=20s HAMMER_PROCESSES=20 HAMMER_GOROUTINES=50 \
	$(GO) test -race -count=1 -timeout 20m -v -run 'TestRW|TestSem|TestReen' ./internal/test/hammer

# How many at a time; MUTANTS=name picks those whose names match.
MUTANT_JOBS ?= 2
MUTANTS     ?=

mutants: zookeeper ## put bugs into the library, one at a time; a test must find each of them
	@$(GO) run ./internal/test/mutants -jobs $(MUTANT_JOBS) '$(MUTANTS)'

# How long the explorer looks at each.
EACH ?= 1m

mutants-explored: ## put the same bugs in, and let the explorer alone look for each, for EACH (1m)
	@$(GO) run ./internal/test/mutants -jobs $(MUTANT_JOBS) -explore $(EACH) '$(MUTANTS)'

takeover: zookeeper ## cut holders off in every way: each must be told before the next one holds; times are printed
	TAKEOVER=1 \
	$(GO) test -count=1 -timeout 60m -v ./internal/test/takeover

# How many rounds.
FAILOVER ?= 20

failover: zookeeper ## measure how long there is no leader, killed or resigned, beside Curator's LeaderLatch and etcd
	@scripts/peers.sh etcd
	FAILOVER=$(FAILOVER) $(GO) test -count=1 -timeout 60m -v -run TestFailover ./internal/test/failover

interop: zookeeper ## share locks with Curator (Java), kazoo (Python) and zk.Lock: all must exclude each other
	@scripts/peers.sh
	INTEROP=1 $(GO) test -race -count=1 -timeout $(TIMEOUT) -v ./internal/test/interop

versions: zookeeper ## run the scenarios, takeover and interop on ZooKeeper 3.4, 3.8 and 3.9, Curator 5.4 and 5.7, kazoo 2.8 and 2.9; the table in docs/reference/versions.md
	@scripts/peers.sh
	@GO="$(GO)" scripts/versions.sh

# How many sequences. ZK_HOME chooses the server's version; a failure names the seed that repeats it: DIFFER_SEED=n.
DIFFER ?= 10000

differ: zookeeper ## play DIFFER (10,000) random sequences of requests on the server in memory and on a real one, and compare
	DIFFER=$(DIFFER) $(GO) test -count=1 -timeout 120m -v -run TestDiffer ./internal/test/differ

# One server or three; for reproduction, the seed: STRESS_SEED=n.
STRESS         ?= 60s
STRESS_SERVERS ?= 3

stress: zookeeper ## lock for STRESS (60s) while servers, connections, sessions and nodes are broken; their record is checked
	STRESS=$(STRESS) STRESS_SERVERS=$(STRESS_SERVERS) \
	$(GO) test -count=1 -timeout 120m -v -run 'TestStress$$' ./internal/test/hammer

# How long, in real time; for reproduction, the seed: EXPLORE_SEED=n. EXPLORE_KIND=k: worlds of that kind alone. RACE=-race for the race detector, at a third of the speed.
EXPLORE ?= 1m
RACE    ?=

explore: ## lock for EXPLORE (1m) in virtual time, in memory, while hosts, packets, members and sessions are broken; Go alone is enough
	@$(GO) run ./internal/test/yields/write bin/_yields # with an underscore, so that ./... does not match it
	@EXPLORE=$(EXPLORE) EXPLORE_SEED=$(EXPLORE_SEED) EXPLORE_KIND="$(EXPLORE_KIND)" \
	$(GO) test $(RACE) -overlay bin/_yields/overlay.json -count=1 -timeout 0 -v -run 'TestExplore$$' ./internal/test/explore

stress-broken: zookeeper ## break the library on purpose, in four ways: the stress must find each within a minute
	STRESS_BROKEN=1 $(GO) test -count=1 -timeout 20m -v -run TestTheStressFindsBugs ./internal/test/hammer

# How many of each.
LOST ?= 10000

lost-replies: zookeeper ## LOST (10,000) creates and deletes are done and not answered; half of the clients come back elsewhere
	LOST=$(LOST) $(GO) test -count=1 -timeout 120m -v -run TestLostReplies ./internal/test/hammer

leaks: zookeeper ## 100,000 canceled waits and 10,000 lost sessions; memory, goroutines, watches and nodes stay flat
	LEAKS=1 \
	$(GO) test -count=1 -timeout 120m -v -run 'Leave|Waiter|Meter' ./internal/test/hostile

# short (about a quarter of an hour) or long (about an hour); BENCH_ONLY=regexp chooses workloads by name,
# BENCH_PEERS=regexp whose locks are measured, BENCH_DISK=1ms makes the server's disk slower. bench-report measures both disks, so it takes twice as long.
BENCH ?= short
# How often bench-local runs each benchmark: benchstat wants several.
COUNT ?= 6

bench: zookeeper ## measure our locks beside zk.Lock and, where installed, Curator and kazoo: one server, a table
	BENCH=$(BENCH) $(GO) test -count=1 -timeout 180m -v -run 'TestBench$$' ./internal/test/bench

# The commit that the library is compared with.
REF ?= HEAD~1

bench-against: zookeeper ## measure our locks beside the same locks as of the commit REF, in the same rounds
	BENCH=$(BENCH) BENCH_AGAINST=$(REF) $(GO) test -count=1 -timeout 180m -v -run 'TestVariants$$' ./internal/test/bench

ablation: zookeeper ## test our locks without any shortcut, and measure them beside the same locks without each of them
	ABLATION=1 $(GO) test -count=1 -timeout 20m -v ./internal/test/ablation
	BENCH=$(BENCH) BENCH_ABLATION=1 $(GO) test -count=1 -timeout 180m -v -run 'TestVariants$$' ./internal/test/bench

bench-local: zookeeper ## go test -bench: re-entry, joined reads, the rule, allocations; COUNT (6) times, for benchstat
	@$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) -timeout 60m \
		./reentrant ./rwlock ./semaphore ./internal/queue ./internal/znode ./internal/goid ./internal/wire

bench-report: zookeeper ## bench and bench-local, into docs/maintainers/benchmarks.md and its charts
	@$(MAKE) -s bench-local > docs/maintainers/benchmarks-local.txt || { cat docs/maintainers/benchmarks-local.txt; exit 1; }
	BENCH=$(BENCH) BENCH_REPORT='$(CURDIR)/docs/maintainers' $(GO) test -count=1 -timeout 180m -v -run 'TestBench$$' ./internal/test/bench

lint: ## gofmt, the style of texts, go vet, staticcheck, go mod tidy and verify, nested modules, too; workflows; the API since the last tag
	@GO="$(GO)" scripts/lint.sh

zookeeper: ## install the ZooKeeper server that the tests start, unless it is there or ZK_SERVERS is set
	@scripts/zookeeper.sh

metrics: ## print lines by package, types, functions and depth of one Lock
	@$(GO) run ./internal/test/metrics

binaries: ## build zklock for Linux and macOS, reproducibly, into bin/release; CHECK=1: twice, and compare
	@GO="$(GO)" scripts/binaries.sh $(if $(CHECK),-check)

fuzz: ## run each fuzz target for FUZZTIME (60s)
	@GO="$(GO)" scripts/fuzz.sh $(FUZZTIME)

vulncheck: ## look for known vulnerabilities, in nested modules, too; needs the Go vulnerability database
	@for dir in . cmd/zklock examples/gocron examples/metrics metrics; do echo "govulncheck, $$dir"; $(TOOL) govulncheck -C $$dir ./... || exit 1; done

cover: zookeeper ## measure what the tests reach, all packages together, into cover.out
	@$(GO) test -count=1 -p $(PARALLEL) -timeout $(TIMEOUT) -coverpkg=$(COVERED) -coverprofile=cover.out ./...
	@$(GO) tool cover -func=cover.out | tail -n 1

timeline: ## draw docs/timeline.svg, the queue of a lock over time, from a run in virtual time
	TIMELINE=write $(GO) test -count=1 ./internal/test/timeline

recording: ## record make demo into docs/demo.svg
	@$(GO) run ./internal/test/recording -title 'make demo' -o docs/demo.svg $(GO) run ./examples/demo

tidy: ## bring go.mod and go.sum up to date, in nested modules, too
	@find . -name go.mod -print | while read -r f; do (cd "$$(dirname "$$f")" && GO="$(GO)" "$(CURDIR)/scripts/tidy.sh") || exit 1; done

clean: ## remove what the targets above leave behind
	rm -rf bin
	find . -type f \( -name '*.test' -o -name '*.out' -o -name '*.prof' \) -not -path './.git/*' -delete
