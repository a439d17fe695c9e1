# Everything runs in .venv, made on first use from the exact pins of requirements/constraints.txt.
PYTHON ?= python3
VENV := .venv
DONE := $(VENV)/.done
RUN := $(VENV)/bin/python
# the many processes of the tests compile the code once, in containers that forbid it too
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -n auto --dist loadgroup

.PHONY: help setup train test test-all test-cluster model-named laws bench report docs lint clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(DONE)  ## make .venv and install everything

$(DONE): pyproject.toml requirements/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "attnlab needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "$(PYTHON) has no working venv module; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(RUN) -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -e '.[dev,sweep]'
	@touch $(DONE)

train: setup  ## the quick main job on the CPU, under 5 minutes: SCAN, Linear Transformer with L2 norm and ortho loss
	$(RUN) train.py experiment=quickstart $(ARGS)

test: setup  ## the tests, 7 to 9 minutes on two cores
	$(PYTEST) -m "not slow" $(ARGS)

test-all: setup  ## also the slow ones, about an hour on two cores: long sequences, compiled steps, Slurm if installed
	$(PYTEST) $(ARGS)

test-cluster: setup  ## sweeps on a real Slurm of one node (installed on Debian and Ubuntu) and on Ray; about 15 minutes
	@$(RUN) -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -e '.[ray]'
	@command -v slurmctld >/dev/null || PATH="$$PATH:/usr/sbin" command -v slurmctld >/dev/null || \
	  $$(test "$$(id -u)" = 0 || echo sudo) apt-get install -y --no-install-recommends slurm-wlm munge
	OMP_NUM_THREADS=1 $(RUN) -m pytest tests/cluster $(ARGS)

model-named:
	@test -n "$(MODEL)" || { echo "name a model of conf/model, such as: make laws MODEL=linear"; exit 2; }

laws: model-named setup  ## the laws for one model, in about half a minute: make laws MODEL=linear
	OMP_NUM_THREADS=1 $(RUN) -m pytest --model=$(MODEL) -m "not slow" $(ARGS)

bench: setup  ## speed and memory, short form; tables on the screen, csv in benchmarks/results
	@$(RUN) -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -e '.[bench]' || \
	  echo "performer-pytorch could not be installed; its rows are left out"
	$(RUN) -m benchmarks.all

report: setup  ## one HTML page of everything measured: experiments/report.html
	$(RUN) report.py page $(ARGS)

docs: setup  ## the documentation as a site: site/index.html; a dead link is an error
	@$(RUN) -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

lint: setup  ## ruff and mypy
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

clean:  ## remove .venv; run folders and data stay
	rm -rf $(VENV)
