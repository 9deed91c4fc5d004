# Everything here needs Go and make only. `make help` lists the targets.

GO       ?= go
GOGC     ?= 400
FUZZTIME ?= 20s
BENCH    ?= .
COUNT    ?= 1
SCENARIO ?= thrashing-deep
WEEKS    ?= 30
ALARMS   ?=

GORELEASER    = $(GO) run github.com/goreleaser/goreleaser/v2@v2.17.1
LINTER        = github.com/golangci/golangci-lint/v2@v2.15.0
GOLANGCI_LINT = $(GO) run $(subst /v2@,/v2/cmd/golangci-lint@,$(LINTER))
INCIDENT      = testdata/incident.tar.zst
GOVULNCHECK   = golang.org/x/vuln@v1.6.0
HELM          = helm.sh/helm/v4/cmd/helm@v4.3.1

.DEFAULT_GOAL := help
.PHONY: help all build run run-recording test accuracy model-accuracy detection race race-ci fmt lint lint-available lint-changed bench fuzz snapshot false-alarms e2e-vllm record-incident

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

all: fmt lint test build ## Format, lint, test and build

build: page ## Build bin/sixty, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o bin/sixty ./cmd/sixty

snapshot: ## Build what a release holds, of the working tree, into dist/ (needs syft; the image needs docker, and is left out)
	$(GORELEASER) release --snapshot --clean --skip docker

.PHONY: tag
tag: page ## Commit the monitor's page on top of HEAD, outside every branch, and tag that VERSION: what `go install` of a release builds
	@test -f $(BUNDLE) || { echo "the monitor's page could not be built: a release needs npm"; exit 1; }
	git switch --quiet --detach && git add --force $(dir $(BUNDLE))
	sed -i.before 's/sixty-llm==[^"]*/sixty-llm==$(VERSION:v%=%)/' pyproject.toml && git add pyproject.toml && rm pyproject.toml.before
	git commit --quiet --message "release: the monitor's page of $(VERSION)" && git tag --annotate --message $(VERSION) $(VERSION)

run: build ## See simulated servers fail and be diagnosed, then the page of a monitor that watches some: no GPU, nothing to install
	@bin/sixty demo --page

run-recording: build ## Diagnose the recorded incident of a real vLLM server
	@bin/sixty diagnose $(INCIDENT) || test $$? -eq 1 # 1 says that something was found

test: schemas page ## Check the format, vet, and run all tests
	@unformatted=$$(gofmt -l cmd e2e internal research); test -z "$$unformatted" || { echo "gofmt -w $$unformatted"; exit 1; }
	$(GO) vet -tags e2e ./... # the tag adds files and takes none away
	GOGC=$(GOGC) $(GO) test -vet=off -ldflags=-s -timeout 40m -p 6 $(WAITING) ./... # more packages at a time than processors: several wait for servers

# Those that wait longest come first, and then those that compute longest, so that nobody waits for them in the end.
# Symbols, which only a debugger reads, would be a third of the linking.
WAITING = ./internal/serve ./cmd/sixty ./internal/cli ./internal/monitor/web/page ./internal/pathologies ./internal/planning ./internal/generate ./internal/fleet ./internal/sim/perfmodel ./internal/generate/burnrate

.PHONY: documents
documents: ## Do what two public guides to monitoring vLLM ask for, 86 items, each with its command and what must be seen (part of make test)
	$(GO) test ./cmd/sixty -run '^TestGuides$$' -count=1

.PHONY: generate
generate: ## Write what is generated from the catalogue: docs, mixin, the lists of panels and of PromQL; read the diff
	$(GO) test ./internal/catalog/indicator -run '^TestPromQL$$' -update
	$(GO) test ./internal/audit/checks -run '^TestDocumentation$$' -update
	$(GO) test ./internal/generate/dashboard -run '^Test(PanelsKeepTheirIdentifiers|TheDocumentationListsEveryPanel)$$' -update
	$(GO) test ./internal/pathologies -run '^Test(RunbookPages|Glossary|FleetTable|Engines)$$' -update
	$(GO) test ./internal/monitor/web/page -run '^TestThePage' -update
	$(GO) test ./internal/cli -run '^TestMixinIsFresh$$' -update

SCHEMAS = internal/generate/dashboard/schema

.PHONY: schemas
schemas: $(SCHEMAS)/node_modules/.package-lock.json ## Install the schemas of Grafana and Perses that tests check against (needs npm; skipped without)

$(SCHEMAS)/node_modules/.package-lock.json: $(SCHEMAS)/package-lock.json
	@command -v npm >/dev/null || { echo "no npm: dashboards are not checked against the schemas of Grafana and Perses"; exit 0; }; \
	cd $(SCHEMAS) && npm ci --silent --fetch-retries 1 --fetch-timeout 20000 || echo "npm packages cannot be had: dashboards are not checked against the schemas of Grafana and Perses"

BUNDLE = internal/monitor/web/page/dist/manifest.json

.PHONY: page page-tools
page: $(BUNDLE) ## Build the monitor's page from web/ (needs npm; without, sixty has a plain one)

page-tools: web/node_modules/.package-lock.json ## Install what builds and tests the page

$(BUNDLE): web/node_modules/.package-lock.json $(shell find web/src web/public web/index.html web/vite.config.ts internal/render/style.css internal/render/chart.go -type f)
	@if test -d web/node_modules; then cd web && npx vite build --logLevel warn; fi

web/node_modules/.package-lock.json: web/package-lock.json
	@command -v npm >/dev/null || { echo "no npm: the monitor's page is a plain one"; exit 0; }; \
	cd web && npm ci --silent --fetch-retries 1 --fetch-timeout 20000 || echo "npm packages cannot be had: the monitor's page is a plain one"

accuracy: ## Judge every recording at 1, 5, 15, 30 and 60 s scrapes, several phases of the grid, and write docs/lab/accuracy.md; fail where a goal is missed
	missed=0; export SIXTY_ACCURACY=full; \
	$(GO) test ./internal/pathologies -run '^Test(Sparse(Alerts)?|Since|OneNameForAConstantFault|AlertsAgreeWithDiagnosis|ConditionsAgreeWithPromQL)$$' -count=1 -timeout 60m -v -update || missed=1; \
	$(GO) test ./internal/planning -run '^Test(NoFirstFixMakesItWorse|IntervalsHoldWhatComes)$$' -count=1 -timeout 60m || missed=1; \
	$(GO) test ./internal/pathologies -run '^TestVerdicts$$' -count=1 -update || missed=1; \
	$(GO) test ./internal/diagnose -run '^TestMemory' -count=1 -timeout 60m || missed=1; \
	$(GO) test ./internal/metrics/pages -run '^TestVerdictsSurvive$$' -count=1 || missed=1; \
	exit $$missed

model-accuracy: ## Fit the performance model to what others measured, leaving out each GPU and each model in turn, tune public deployments, and write docs/lab/model-accuracy.md
	cd research/modelaccuracy && $(GO) run .
	SIXTY_ACCURACY=update $(GO) test ./internal/cli -run '^TestTuneOfPublicDeployments$$' -count=1
	cd research/modelaccuracy && $(GO) run . -page && SIXTY_ACCURACY=full $(GO) test -count=1 -v .

detection: ## Measure how long after its onset a fault is an alert, and write the tables of docs/lab/rules.md
	SIXTY_ACCURACY=full $(GO) test ./internal/pathologies -run '^TestDetectionTimes$$' -count=1 -timeout 60m -v -update

race: ## Run all tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race ./...

race-ci: ## Look for data races in the short tests of the packages with goroutines (needs a C compiler)
	@packages=$$(grep -rlE --include='*.go' --exclude='*_test.go' '(^|[^a-z])go func|\.Go\(' internal | xargs -n 1 dirname | sort -u | sed 's|^|./|'); \
	out=$$(mktemp); trap 'rm -f "$$out"' EXIT; export CGO_ENABLED=1; \
	$(GO) test -race -vet=off -run '^$$' $$packages || exit 1; \
	$(GO) test -race -short -vet=off $$packages >"$$out" 2>&1; \
	tail -n 60 "$$out"; ! grep -A 40 'WARNING: DATA RACE' "$$out" # slower by ten times: what a test says of its pace counts in make test

fmt: ## Format the code
	$(GOLANGCI_LINT) fmt

.PHONY: chart
chart: bin/helm ## Lint the Helm chart and render it; without a Helm on the machine, the first run builds one, which takes minutes
	$(GO) test ./deploy -run '^TestChart' -count=1

bin/helm:
	if helm=$$(command -v helm); then mkdir -p bin && ln -sf "$$helm" $@; else GOBIN=$(CURDIR)/bin CGO_ENABLED=0 $(GO) install -ldflags "-s -w" $(HELM); fi

lint: words ## Lint; the first run builds golangci-lint, which takes minutes
	$(GOLANGCI_LINT) run

.PHONY: words
words: ## Look for house words in texts and documents
	$(GO) test ./internal/rooms -run '^TestHouseWordsAreGone$$'

lint-available: # Fail where the linter's sources cannot be had
	@cd / && $(GO) mod download $(LINTER)

.PHONY: vulncheck vulncheck-available licenses
vulncheck: ## Look for known vulnerabilities in what the program calls
	$(GO) run $(subst @,/cmd/govulncheck@,$(GOVULNCHECK)) ./cmd/sixty

vulncheck-available: # Fail where the program or the database of vulnerabilities cannot be had
	@cd / && $(GO) mod download $(GOVULNCHECK) && curl -fsS -m 20 -o /dev/null https://vuln.go.dev/index/db.json

# The licences that a program under Apache 2.0 may be shipped with, told by what their texts say.
licenses: ## Check the licence of every module in the program
	@$(GO) list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}' ./cmd/sixty | sort -u | { bad=0; n=0; \
	while read -r module dir; do \
		n=$$((n + 1)); text=$$(cat "$$dir"/LICEN[SC]E* "$$dir"/COPYING* "$$dir"/License* "$$dir"/license* 2>/dev/null | tr -s ' \n\r\t' ' '); \
		case "$$text" in \
		*"GENERAL PUBLIC LICENSE"*) echo "$$module: a licence of the GPL's kind"; bad=1 ;; \
		*"Apache License"*|*"Permission is hereby granted, free of charge"*|*"Redistribution and use in source and binary forms"*|*"Mozilla Public License"*|*"Permission to use, copy, modify, and"*) ;; \
		*) echo "$$module: no licence that is known here"; bad=1 ;; \
		esac; \
	done; echo "$$n modules"; exit $$bad; }

lint-changed: ## Lint what changed since main, or in the last commit where that is main
	@base=$$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || git rev-parse HEAD); \
	if test "$$base" = "$$(git rev-parse HEAD)" && git rev-parse -q --verify HEAD~1 >/dev/null; then base=HEAD~1; fi; \
	$(GOLANGCI_LINT) run --new-from-rev "$$base"

bench: ## Run the benchmarks (BENCH=regexp COUNT=n); compare two outputs with benchstat
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...

# Without -fuzzminimizetime a worker spends up to a minute on each input that reaches new code, to shorten it. Up to
# Go 1.26 a target may end with "context deadline exceeded" where its time was over and nothing was found (golang/go#75804).
fuzz: ## Fuzz every target for FUZZTIME
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' internal \
	| sed -E 's|^(.*)/[^/]+:[0-9]+:func (.*)|\1 \2|' \
	| while read -r dir target; do \
		echo "$$dir $$target"; \
		out=$$($(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "./$$dir" </dev/null 2>&1); failed=$$?; echo "$$out"; \
		case "$$failed $$out" in 0*) ;; *"Failing input"*) exit 1 ;; *"context deadline exceeded"*) ;; *) exit 1 ;; esac; \
	done

false-alarms: ## Count false alarms and missed faults in WEEKS replica-weeks of a living cluster, into docs/lab/false-alarms.md (ALARMS=directory for recordings)
	GOGC=400 $(GO) test ./internal/fleet -run '^TestRate$$' -v -timeout 0 -weeks $(WEEKS) -update $(if $(ALARMS),-alarms $(abspath $(ALARMS)))

.PHONY: man
man: ## Write man pages and completions into bin/
	$(GO) run ./internal/tools/man

e2e-vllm: build ## Diagnose real vLLM servers while they are sick, live and through a Prometheus (needs SIXTY_VLLM)
	@test -n "$$SIXTY_VLLM" || { echo "set SIXTY_VLLM to a directory with a virtual environment in venv/ and a model in model/"; exit 1; }
	SIXTY_BIN=$(abspath bin/sixty) $(GO) test -tags e2e -run '^Test(Live|Prometheus)$$' -timeout 90m -v ./e2e

.PHONY: siege
siege: build ## Attack the monitor in the memory of its pod (2 GiB): heavy and slow clients, bombs, new series, kill -9, a full disk, damage; seven minutes
	SIXTY_BIN=$(abspath bin/sixty) $(GO) test -tags e2e -run '^Test(Siege|Killed|FullDisk)$$' -timeout 10m -count=1 -v ./e2e/serve -kills 4
	$(GO) test -run '^TestADamaged(Log|Block)$$' -count=1 ./internal/serve

.PHONY: siege-incidents
siege-incidents: build ## Two hours of attacks in turn while servers die, hang, drown and restart: a receiver that is well hears of each fault once; SIXTY_BESIEGED=20m is shorter
	SIXTY_BESIEGED=$${SIXTY_BESIEGED:-2h} SIXTY_BIN=$(abspath bin/sixty) $(GO) test -tags e2e -run '^TestIncidents$$' -timeout 0 -count=1 -v ./e2e/serve

.PHONY: scale
scale: build ## Judge 10,000 replicas of 60 models that a VictoriaMetrics holds, in ten shards: half an hour, 15 GB and a quiet machine, which ends in time with SIXTY_EVERY=120s on two processors; SIXTY_SHARDS=2 judges one shard, SIXTY_LESS=20 takes a twentieth of the replicas
	SIXTY_ROUNDS=4 SIXTY_BIN=$(abspath bin/sixty) $(GO) test -tags e2e -run '^TestShards$$' -timeout 90m -count=1 -v ./e2e/serve

.PHONY: e2e-kubernetes
e2e-kubernetes: build ## Apply the chart and the manifests to a real Kubernetes API server (needs SIXTY_KUBERNETES, a directory of its programs)
	@test -n "$$SIXTY_KUBERNETES" || { echo "set SIXTY_KUBERNETES to a directory with etcd, kube-apiserver, kubectl, helm, and crd/ of the Prometheus operator"; exit 1; }
	SIXTY_BIN=$(abspath bin/sixty) $(GO) test -tags e2e -run '^TestKubernetes$$' -timeout 10m -count=1 -v ./e2e

record-incident: ## Record the incident of `make run-recording` again (needs SIXTY_VLLM; SCENARIO=name)
	@test -n "$$SIXTY_VLLM" || { echo "set SIXTY_VLLM to a directory with a virtual environment in venv/ and a model in model/"; exit 1; }
	mkdir -p dist
	$(GO) test -tags e2e -run '^TestRecord$$/^$(SCENARIO)$$' -timeout 30m -v ./e2e -out $(abspath dist)
	cp dist/$(SCENARIO).tar.zst $(INCIDENT)
