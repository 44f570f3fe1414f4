# Everything a developer does. Nothing but Go is needed; targets that need more
# fetch it into .cache or fail with what is missing.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CACHE    := $(CURDIR)/.cache
GO       ?= go
# What only tests need has a module of its own, so that nothing that imports
# Tidegate inherits it.
MODULES  := . test/deploy test/alerts
FUZZTIME ?= 10s
BENCHTIME ?= 1x
NIGHT_CHECKS ?= 1000

GOLANGCI_VERSION := v2.15.0
DYNOXIDE_VERSION := 1.2.1
NATSCLI_VERSION  := v0.3.0
GOVULNCHECK_VERSION := v1.9.0
NATSPY_VERSION   := 2.11.0

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/tidegate; its version is the git tag, which Go itself puts in
	$(GO) build -trimpath -buildvcs=auto -o bin/tidegate ./cmd/tidegate

.PHONY: run
run: build ## start the whole system on embedded back ends
	@exec bin/tidegate up

# Pure packages, stores and services. The tests of cmd and test start processes, or all
# services at once, and wait more than they work.
UNITS    = $$($(GO) list ./... | grep -v -e /tidegate/cmd/ -e /tidegate/test/)
# Units that are raced on every change: seconds each, with goroutines of their own.
RACED   := ./internal/process ./internal/leader ./internal/worker ./internal/store ./pkg/client/... \
	./services/aggregator ./services/archiver ./services/sharder

.PHONY: test
test: ## run all tests, the concurrent units that are quick with the race detector
	$(GO) test -race -short -shuffle=on -timeout 10m -p 4 $(RACED)
	$(GO) test -shuffle=on -timeout 15m -p 4 -parallel 4 $$($(GO) list ./... | grep -vxF "$$($(GO) list $(RACED))")
	cd test/deploy && $(GO) test -shuffle=on -timeout 15m -parallel 4 ./...

.PHONY: test-fast
test-fast: ## run the tests of pure packages, stores and services in a minute; what has not changed is not run again
	$(GO) test -short -timeout 5m -p 4 $(UNITS)

# Units that are raced on every change too, and take minutes.
RACED_LONG := ./services/admission/... ./services/relay ./internal/feed ./internal/rollback ./internal/shards ./internal/control \
	./engine ./engine/fault

.PHONY: test-race
test-race: ## run the other concurrent units with the race detector, which takes minutes
	$(GO) test -race -short -shuffle=on -timeout 15m -p 4 -parallel 4 $(RACED_LONG)

.PHONY: test-night
test-night: ## check each property NIGHT_CHECKS times (1000), race everything, kill the engine 1,000 times, then fuzz
	RAPID_CHECKS=$(NIGHT_CHECKS) $(GO) test -count=1 -shuffle=on -timeout 3h $(UNITS)
	$(GO) test -race -count=1 -shuffle=on -timeout 1h $(UNITS) ./cmd/... ./test/e2e ./test/observe
	$(GO) test -count=1 -timeout 1h -run TestKill ./engine -kills 1000
	$(MAKE) sim-exhaustive
	cd test/deploy && $(GO) test -count=1 -timeout 1h -run TestABucketIsLinearizable . -linear.rounds 200
	$(MAKE) fuzz

.PHONY: sim-exhaustive
sim-exhaustive: ## explore every order of small cases over the real planner and write forms: 2 × 10⁷ states in about 2 minutes
	GOMEMLIMIT=6GiB $(GO) test -count=1 -timeout 1h -run TestEverySmallCase -v ./services/admission -exhaustive

.PHONY: mutants
mutants: ## break a line at a time and run the tests that should notice: ONLY=regexp selects, FRESH=1 forgets earlier results; takes hours
	$(GO) run ./test/mutants -only '$(ONLY)' -fresh=$(if $(FRESH),true,false)

.PHONY: test-cluster
test-cluster: ## kill, hang and restart three NATS servers and all services under load, which takes about two minutes
	$(GO) test -count=1 -timeout 10m -tags cluster -v -run TestTheCluster ./test/cluster

.PHONY: test-forget
test-forget: ## put NATS back to 1,000 older moments under a running system, which takes two hours
	@# In processes of 50 moments: a system in one process keeps all that it saw in memory.
	for run in $$(seq 20); do TIDEGATE_TEST_MOMENTS=50 $(GO) test -count=1 -timeout 1h -run TestNATSForgets -v ./test/e2e; done

STEPS ?= 1000
SIMTIME ?= 8h
SIMFIRST ?= 1000
.PHONY: sim
sim: ## simulate the system from SEED for STEPS (1000) steps, twice, and leave its story in .cache/sim
	@test -n "$(SEED)" || { echo "say which seed: make sim SEED=50 STEPS=2000"; exit 1; }
	$(GO) test -count=1 -v -run TestASeed ./test/sim -seed $(SEED) -steps $(STEPS) -story $(CACHE)/sim

.PHONY: sim-night
sim-night: ## simulate seeds from SIMFIRST (1000) on for SIMTIME (8h), and keep the seeds that fail, minimised
	$(GO) test -count=1 -v -timeout 0 -run TestNight ./test/sim -night $(SIMTIME) -first $(SIMFIRST) -steps $(STEPS)

.PHONY: test-alerts
test-alerts: ## test alert rules and dashboards with Prometheus' own engine, a module of its own
	cd test/alerts && $(GO) vet ./... && $(GO) test -timeout 5m ./...

.PHONY: cover
cover: ## run all tests, say what they cover, and leave the lines in .cache/cover.html
	mkdir -p $(CACHE)
	$(GO) test -coverpkg=./... -coverprofile=$(CACHE)/cover.out -timeout 15m ./...
	$(GO) tool cover -html=$(CACHE)/cover.out -o $(CACHE)/cover.html
	$(GO) tool cover -func=$(CACHE)/cover.out | tail -1

.PHONY: check
check: lint ## lint, go vet, and that go.mod is tidy, of every module
	for module in $(MODULES); do (cd $$module; $(GO) vet -tags otherengine,natscli,python,cluster ./...; $(GO) mod tidy -diff; $(GO) mod verify); done

.PHONY: lint
lint: $(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION) ## run golangci-lint
	for module in $(MODULES); do (cd $$module; $< run ./...); done

.PHONY: notices
notices: ## write the licences of all that is linked into the program to bin/THIRD_PARTY_NOTICES
	mkdir -p bin
	scripts/notices > bin/THIRD_PARTY_NOTICES.part
	mv bin/THIRD_PARTY_NOTICES.part bin/THIRD_PARTY_NOTICES

.PHONY: pin-images
pin-images: ## pin the images of Dockerfile and compose files to their digests; needs docker and the registries
	scripts/pin-images

.PHONY: check-images
check-images: ## fail if an image is not pinned by digest
	scripts/pin-images --check

.PHONY: vuln
vuln: ## look for known vulnerabilities in what is called; fails where the database cannot be reached
	$(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

.PHONY: tools
tools: $(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION) ## build the linter into .cache/bin, which takes minutes the first time

$(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION):
	mkdir -p $(@D)
	GOBIN=$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(@D)/golangci-lint $@

.PHONY: bench
bench: ## measure speed, memory and cost, as ratios taken in one run
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) -timeout 20m ./test/bench
	$(GO) test -run '^$$' -bench . -benchtime 0.5s ./pkg/... ./internal/... ./engine/...

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10s)
	@for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "== $$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: test-dynoxide
test-dynoxide: ## admission's suite on an independent engine, dynoxide, and the embedded one compared with it; needs npm
	dynoxide="$$(scripts/get-dynoxide $(DYNOXIDE_VERSION) $(CACHE)/dynoxide)"; \
	scripts/with-dynoxide "$$dynoxide" $(GO) test -count=1 -short -timeout 15m ./services/admission; \
	scripts/with-dynoxide "$$dynoxide" $(GO) test -count=1 -timeout 15m -tags otherengine ./engine/differential -rapid.checks=1000

.PHONY: test-dynamodb-local
test-dynamodb-local: ## the same against DynamoDB Local; read scripts/get-dynamodb-local first: its licence
	scripts/with-dynamodb-local "$$(scripts/get-dynamodb-local $(CACHE)/dynamodb-local)" \
		$(GO) test -count=1 -timeout 20m -tags otherengine ./services/admission ./engine/differential

.PHONY: test-nats-cli
test-nats-cli: $(CACHE)/natscli-$(NATSCLI_VERSION)/nats ## run what docs/nats-cli.md says; builds the nats command into .cache, which takes minutes the first time
	TIDEGATE_TEST_NATS_CLI=$(<D) $(GO) test -count=1 -tags natscli -run TestNATSCommandLine ./test/readme
	cd test/deploy; TIDEGATE_TEST_NATS_CLI=$(<D) $(GO) test -count=1 -tags natscli -run TestTheNATSCommandLineOfATenant ./...

# In the module's own folder: `go install` would look for a module by the program's
# path first, which not every proxy answers.
$(CACHE)/natscli-$(NATSCLI_VERSION)/nats:
	folder="$$($(GO) mod download -json github.com/nats-io/natscli@$(NATSCLI_VERSION) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p')"; \
	mkdir -p $(@D); cd "$$folder"; $(GO) build -o $@ ./nats

.PHONY: test-python
test-python: ## run what docs/python.md says, with nats-py; needs Python 3 and PyPI
	python3 -m venv $(CACHE)/python
	$(CACHE)/python/bin/pip install --quiet nats-py==$(NATSPY_VERSION)
	TIDEGATE_TEST_PYTHON=$(CACHE)/python/bin/python $(GO) test -count=1 -tags python -run TestPython ./test/readme

.PHONY: clean
clean: ## remove what was built and fetched
	rm -rf bin $(CACHE)
