# Targets explain themselves: `make` prints the line behind the ## of each.

GO          ?= go
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK  = golang.org/x/vuln/cmd/govulncheck@v1.8.0

# How long all integration tests may take; go test gives up after 10 minutes by default.
INTEGRATION_LIMIT = 30m

# How long random schedules are simulated: by make test, and by make simulate.
SIM_BUDGET      ?= 30s
SIMULATE_BUDGET ?= 30m

# How long rules are broken by make mutate-quick, besides those of files that have changed since the commit BASE, and how many of those are tried
# at least (0: all).
MUTATE_BUDGET ?= 3m
MUTATE_MOST   ?= 0
BASE          ?=

# How long each fuzz target is fed by make fuzz.
FUZZ_FOR ?= 20s

# How long faults are let loose by make chaos. 30 minutes are more than 200 kills.
CHAOS_FOR ?= 30m

# The releases of Kafka that make releases tries, separated by commas: the last one of each minor version.
RELEASES ?= 3.3.2,3.4.1,3.5.2,3.6.2,3.7.2,3.8.1,4.0.1,4.1.1,4.2.0

# How long a soak takes, and how many records are pending meanwhile. SOAK_FOR=2m SOAK_PENDING=200000 is a small one.
SOAK_FOR     ?= 30m
SOAK_PENDING ?= 20000000

# The packages of integration tests in which something is found. None of them is an error.
packages-with = $$(git grep -l '$(1)' -- 'integration/*_test.go' | sed 's,^,./,; s,/[^/]*$$,,' | sort -u | grep . || echo ./no-package-has-it)

.DEFAULT_GOAL = help
.NOTPARALLEL:
.PHONY: help build image test check unit sim brokerless simulate mutate mutate-quick fuzz integration chaos releases memory docker docker-if-there kafka bench bench-ask bench-look bench-scale bench-size bench-failover soak soak-plot vuln

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target text; do \
		printf '  %-14s %s\n' "$$target" "$$text"; done

build: ## build ./duewheel
	$(GO) build -o duewheel ./cmd/duewheel

IMAGE = duewheel:dev
image: ## a container image of the program, IMAGE: deploy/Dockerfile
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && mkdir "$$dir/state" && CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -o "$$dir/duewheel" ./cmd/duewheel && \
		docker build -q -t $(IMAGE) -f deploy/Dockerfile "$$dir"

test: check brokerless integration docker-if-there ## everything, on a real Kafka: needs a JDK 17 with Maven, or a Docker engine; and kcat, pip and npm
	@echo "make test: all passed"

check: ## gofmt, go vet, staticcheck
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "run gofmt -w on:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

# Without the race detector, several times as fast: the package of which a test holds that it has no goroutine; the one that measures, which takes less
# than half of the time so; the command, which waits for most of the time so, and takes six minutes otherwise (go test -race ./cmd/duewheel is for those who change
# its goroutines); and of others what plays very many cases on one goroutine: what a store counts, looks at partitions, and whether checker and
# processor agree. So does what checks the types of each mutant. It plays with small heaps, which would be collected all the time. The build tag has what
# is released overwritten, as the race detector does. Nothing is vetted again: make check does that.
ALONE          = AsAnOwnerSees|^TestCountsAfterCrashes|^TestAgrees$$|^TestMutantsBuild
ALONE_PACKAGES = ./processor/ahead ./state ./bench/check ./integration/mutate
PURE_PACKAGE   = ./processor/pending
BENCHMARKS     = ./bench
COMMAND        = ./cmd/duewheel
raced          = $$($(GO) list ./... | grep -vxF "$$($(GO) list $(PURE_PACKAGE) $(BENCHMARKS) $(COMMAND))")

# The tests of some packages wait for most of the time, so more packages than there are CPUs are tested at once.
unit: ## tests that need no broker, with the race detector
	$(GO) test -race -short -vet=off -p 4 -timeout 20m -skip '$(ALONE)' $(raced)
	GOGC=300 $(GO) test -short -vet=off -tags synctests $(PURE_PACKAGE) & pure=$$!; \
		$(GO) test -short -vet=off $(COMMAND) & command=$$!; \
		GOGC=300 $(GO) test -short -vet=off -run '$(ALONE)' $(ALONE_PACKAGES); alone=$$?; \
		GOGC=300 $(GO) test -short -vet=off $(BENCHMARKS); benchmarks=$$?; \
		wait $$command; command=$$?; \
		wait $$pure && [ $$command = 0 ] && [ $$alone = 0 ] && [ $$benchmarks = 0 ]

# The build tag keeps the client's own locks from holding up a bubble's clock. A simulation keeps one CPU busy, so two halves of the scenarios run
# side by side. All is built once, before that. Of scenarios that are played with each error that brokers may answer, or with each point at which a log is
# cut, -test.short leaves some out; SIM_FLAGS= plays them all.
SIM_FLAGS ?= -test.short
sim: ## the whole processor simulated: named scenarios, then random schedules for SIM_BUDGET, and how often each act was played
	@dir=$$(mktemp -d) && trap 'rm -r "$$dir"' EXIT && $(GO) test -c -vet=off -tags synctests -o "$$dir/sim" ./processor && cd processor && \
		{ "$$dir/sim" $(SIM_FLAGS) -test.timeout 25m -test.run 'Sim[^A-D]' -test.skip TestSimRandom & half=$$!; \
			"$$dir/sim" $(SIM_FLAGS) -test.timeout 25m -test.run 'Sim[A-D]'; other=$$?; \
			wait $$half && [ $$other = 0 ]; } && \
		DUEWHEEL_TEST_SIM_BUDGET=$(SIM_BUDGET) "$$dir/sim" -test.timeout 15m -test.v -test.run TestSimRandom

# A simulation has a clock of its own, and some unit tests wait for what is to happen soon: so those go first.
brokerless: ## make unit and make sim, side by side: all that needs no broker
	@log=$$(mktemp) && trap 'rm "$$log"' EXIT; \
		nice -n 19 $(MAKE) --no-print-directory sim >"$$log" 2>&1 & sim=$$!; \
		$(MAKE) --no-print-directory unit; unit=$$?; \
		wait $$sim; sim=$$?; cat "$$log"; [ $$unit = 0 ] && [ $$sim = 0 ]

simulate: ## random schedules with fresh seeds for SIMULATE_BUDGET; a failing one is shrunk and printed
	DUEWHEEL_TEST_SIM_BUDGET=$(SIMULATE_BUDGET) $(GO) test -count=1 -tags synctests -timeout 0 -v -run TestSimRandom ./processor

mutate: ## break each rule of the design in a copy of the tree, and see that the test that guards it goes red
	$(GO) run ./integration/mutate

mutate-quick: ## the same for what has changed since BASE (the last release), and as many others as MUTATE_BUDGET allows
	$(GO) run ./integration/mutate -quick -within $(MUTATE_BUDGET) -base '$(BASE)' -most $(MUTATE_MOST)

# go test fuzzes one target at a time. They are found by listing them, so that a new one is not forgotten.
fuzz: ## every fuzz target, each for FUZZ_FOR
	@n=0; for dir in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do \
		targets=$$($(GO) test -list '^Fuzz' ./$$dir) || exit 1; \
		for target in $$(echo "$$targets" | grep '^Fuzz'); do \
			echo "$$dir $$target"; n=$$((n + 1)); \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_FOR) ./$$dir || exit 1; \
		done; \
	done; \
	[ $$n -gt 0 ] || { echo "make fuzz: no target was found"; exit 1; }; \
	echo "make fuzz: $$n targets"

# By convention what needs a Kafka is what -short leaves out; the other packages are those of make unit. The package that fills the machine with brokers
# is by itself; the rest, which begins brokers and clients of other languages, follows side by side. Tests that wait for most of the time go three at a time.
# Verbose, because how many kills hit an open transaction is a figure to look at; what has failed is said once more at the end of each, and of both.
INTEGRATION = $(GO) run ./integration/recap -keep "$$failed" $(GO) test -json -count=1 -vet=off -parallel 3 -timeout $(INTEGRATION_LIMIT)
integration: ## tests on a real Kafka; DUEWHEEL_TEST_KAFKA=external|docker|jvm chooses which
	@failed=$$(mktemp) && trap 'rm "$$failed"' EXIT; \
		$(INTEGRATION) ./integration; most=$$?; \
		$(INTEGRATION) $$(echo $(call packages-with,testing.Short()) | tr ' ' '\n' | grep -vx ./integration); others=$$?; \
		cat "$$failed"; [ $$most = 0 ] && [ $$others = 0 ]

# Each of its waits is bounded, so go test need not bound the whole. It prints its seed: make chaos DUEWHEEL_TEST_SEED=... plays the same
# faults again.
chaos: ## replicas, connections and brokers break at random for CHAOS_FOR; prints how long recoveries took
	DUEWHEEL_TEST_CHAOS_FOR=$(CHAOS_FOR) $(GO) test -v -count=1 -timeout 0 -run '^TestChaos$$' ./integration

releases: ## delivery, restarts, cancels, kill -9 and trimming on other releases of Kafka, RELEASES (some ten minutes; Maven fetches each once)
	DUEWHEEL_TEST_RELEASES=$(RELEASES) $(GO) test -v -count=1 -timeout 0 -run '^TestReleases$$' ./integration

memory: ## the tests of memory in full: five million records due within a second, two million late (some eight minutes, 6 GB of disk)
	DUEWHEEL_TEST_MEMORY=full $(GO) test -v -count=1 -timeout 0 -run '^TestMemory' ./integration

# By convention a test that is to run in containers has Docker in its name.
docker: ## the smoke tests in containers
	DUEWHEEL_TEST_KAFKA=docker $(GO) test -count=1 -vet=off -run Docker $(call packages-with,func Test.*Docker)

# Who sets DOCKER_HOST says that there is an engine, so one that does not answer is then a failure.
docker-if-there:
	@if [ -n "$$DOCKER_HOST" ] || $(GO) run ./integration/brokers/run -have docker 2>/dev/null; then \
		$(MAKE) --no-print-directory docker; \
	else \
		echo "The smoke tests in containers are left out; go run ./integration/brokers/run -have docker says why."; \
	fi

kafka: ## a Kafka on this machine to try things with, until Ctrl-C
	$(GO) run ./integration/brokers/run

bench: ## measure on a Kafka on this machine (some 30 minutes, nothing else running), and put the table into docs/benchmarks.md
	$(GO) run ./bench/run -update docs/benchmarks.md

bench-ask: ## the same for cancels, retries, ids and the audit topic (some twelve minutes)
	$(GO) run ./bench/run -ask -pending 10000000 -update docs/benchmarks.md

bench-look: ## how soon it is known what is pending (some two minutes)
	$(GO) run ./bench/run -look -update docs/benchmarks.md

bench-scale: ## what ten million pending records cost, without a Kafka (some five minutes, 5 GB of disk)
	$(GO) run ./bench/run -scale -pending 10000000 -update docs/sizing.md

bench-size: ## what 20 million pending records cost beside none, on a Kafka (some 20 minutes, 15 GB of disk)
	$(GO) run ./bench/run -size -pending 20000000 -update docs/sizing.md

bench-failover: ## the same with replicas that are killed, restarted and added (some six minutes, 6 GB of disk)
	$(GO) run ./bench/run -failover -update docs/benchmarks.md

# With 20 million records it takes some ten minutes more to write and to check them, 15 GB of disk and 3 GB of memory.
soak: ## SOAK_PENDING records pending for SOAK_FOR, logs cut and carried meanwhile; samples in soak.json; fails if memory, disk, logs or records are not as they should be
	$(GO) run ./bench/run -soak -pending $(SOAK_PENDING) -for $(SOAK_FOR) -samples soak.json -svg soak.svg

soak-plot: ## put what the last soak has sampled into docs/soak.svg and docs/sizing.md
	$(GO) run ./bench/run -plot soak.json -svg docs/soak.svg -update docs/sizing.md

vuln: ## govulncheck, which needs to reach vuln.go.dev
	$(GO) run $(GOVULNCHECK) ./...
