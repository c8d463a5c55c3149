# Everything a newcomer needs: `make run` and `make test` set themselves up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help run test test-ha engines check fmt dist bench bench-full soak fuzz lock clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1mmake %-10s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run dashboard ## Start Tocsin on http://127.0.0.1:8420 with its own PostgreSQL in ./.tocsin
	@$(BIN)/tocsin serve $(ARGS)

test: $(VENV)/.dev dashboard ## Run the checks and every test (make test ARGS="tests/unit -k cron" for a part)
	@$(BIN)/python web/build.py --tools >/dev/null 2>&1 || true # all at once: npm removes what another test is using
	@$(BIN)/python -m pytest $(or $(ARGS),-n 3) || $(if $(ARGS),exit,$(ALONE))

# Tests share two cores with servers, browsers and brokers, and some lose a race for them. What fails is tried once
# more by itself and has to pass there. A defect fails both times; a test that needs this is still listed as failed.
ALONE = { [ $$? = 1 ] && echo "these failed beside others; once more, by themselves:" \
	&& $(BIN)/python -m pytest -x --last-failed --last-failed-no-failures=none; }

test-ha: $(VENV)/.ha ## Let a cluster under Patroni fail over under load, for minutes (needs etcd: apt-get install etcd-server)
	@TOCSIN_HA_PATRONI=1 $(BIN)/python -m pytest -n 0 -s tests/ha $(ARGS)

engines: .engines/kafka/.ok .engines/elasticmq/.ok ## Fetch Kafka and ElasticMQ for the tests of messages (needs java and mvn)

.engines/%/.ok: requirements/engines/%.xml requirements/engines/%.sha256
	@echo "fetching $* …"
	@rm -rf .engines/$* && mkdir -p .engines/$*
	@mvn -q -B -f requirements/engines/$*.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/.engines/$*
	@cd .engines/$* && sha256sum --quiet --strict -c ../../requirements/engines/$*.sha256
	@touch $@

check: $(VENV)/.dev ## Lint, types, import contracts, of Python and of the dashboard
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python web/build.py --check

fmt: $(VENV)/.dev ## Format and fix what can be fixed
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .
	$(BIN)/python web/build.py --fmt

dist: $(VENV)/.dev ## Build wheel and source distribution into dist/, with the dashboard in them
	@$(BIN)/python web/build.py
	@rm -rf dist
	$(BIN)/python -m hatchling build -t sdist -t wheel

bench: $(VENV)/.dev ## Measure this machine: the short table, beside PostgreSQL's own limits
	$(BIN)/python -m bench $(ARGS)

bench-full: $(VENV)/.bench ## Measure everything beside its peers, over an hour: bench/RESULTS.md (make bench-full ARGS=--resume to go on)
	$(BIN)/python -m bench.full $(ARGS)

soak: $(VENV)/.dev ## Long seeded fault run (make soak ARGS="--minutes 30 --seed 7")
	$(BIN)/python -m tests.soak $(ARGS)

fuzz: $(VENV)/.dev ## Thousands of requests drawn from the OpenAPI document (make fuzz ARGS="--requests 50000 --seed 7")
	$(BIN)/python -m tests.fuzz $(ARGS)

lock: ## Rewrite the hashed lock files from pyproject.toml (needs uv)
	uv pip compile -q pyproject.toml --extra server --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -o requirements/run.txt
	uv pip compile -q --group build --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -o requirements/build.txt
	uv pip compile -q pyproject.toml --extra server --group dev --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -o requirements/dev.txt
	uv pip compile -q pyproject.toml --extra all -c requirements/dev.txt --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -o requirements/image.txt
	uv pip compile -q --group web --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -o requirements/web.txt
	uv pip compile -q --group ha -c requirements/dev.txt --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -o requirements/ha.txt
	uv pip compile -q --group bench -c requirements/dev.txt --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -o requirements/bench.txt

clean: ## Remove the virtual environment, built packages and caches (never data)
	rm -rf $(VENV) dist .engines web/node_modules src/tocsin/dashboard/static .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The stamp files make installs happen once per lock file. hatchling comes from the lock too, so that the
# editable install fetches nothing unpinned.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tocsin needs Python 3.11 or newer; try make PYTHON=python3.12 …")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.txt requirements/build.txt pyproject.toml | $(VENV)/bin/python
	@echo "installing the pinned dependencies …"
	@$(BIN)/pip install -q --require-hashes --only-binary :all: -r requirements/run.txt -r requirements/build.txt
	@$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	@echo "installing the pinned development dependencies …"
	@$(BIN)/pip install -q --require-hashes --only-binary :all: -r requirements/dev.txt
	@$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.run

# What only the plots of the benchmarks need: make .venv/.bench
$(VENV)/.bench: requirements/bench.txt $(VENV)/.dev
	@echo "installing what plots need …"
	@$(BIN)/pip install -q --require-hashes --only-binary :all: -r requirements/bench.txt
	@touch $@

# What only `make test-ha` needs. One package comes as source: what builds it comes from the lock, too, and first.
$(VENV)/.ha: requirements/ha.txt $(VENV)/.dev
	@echo "installing Patroni …"
	@sed -n '/^setuptools==/,/[^\\]$$/p' requirements/ha.txt > $(VENV)/ha-build.txt
	@$(BIN)/pip install -q --require-hashes --only-binary :all: -r $(VENV)/ha-build.txt
	@$(BIN)/pip install -q --require-hashes --no-build-isolation -r requirements/ha.txt
	@touch $@

# The dashboard is built once per change of its sources. Without a package registry the rest works: `/` says what is missing.
WEB_SOURCES := web/package-lock.json web/build.py $(wildcard web/src/*.* web/src/*/*.*)
.PHONY: dashboard
dashboard: $(VENV)/.run
	@$(MAKE) --no-print-directory -s $(VENV)/.dashboard || true

$(VENV)/.dashboard: $(WEB_SOURCES) | $(VENV)/bin/python
	@echo "building the dashboard …"
	@$(BIN)/python web/build.py
	@touch $@
