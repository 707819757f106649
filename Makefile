# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_OUT ?= demo-out
STAMP := $(VENV)/.installed

.PHONY: demo test dev check docs golden scenarios chaos soak bench lock clean

demo: $(STAMP)
	rm -rf $(DEMO_OUT)
	$(BIN)/promptmill run -i static/demo/requests.jsonl -o $(DEMO_OUT) --model static/demo/model \
	    --with-text --allowed-media-root static/demo --rows-per-shard 200 --workers 2
	$(BIN)/python infra/demo/show.py $(DEMO_OUT)

test: $(STAMP)
	$(BIN)/pytest

dev: $(STAMP)
	mkdir -p .links/promptmill
	for layer in workers pipeline schemas static; do \
	    ln -sfn ../../$$layer .links/promptmill/$$layer; \
	done

check: dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p promptmill
	$(BIN)/pytest -q tests/layers

# The documentation as a site, in build/site.
docs: $(STAMP)
	$(BIN)/mkdocs build --strict

# Cases of the reference front end, and situations that went wrong in real tools.
SHARED ?= $(or $(PROMPTMILL_SHARED),../shared)
GOLDEN := $(BIN)/python tests/golden/run.py

golden: $(STAMP)
	$(GOLDEN) $(SHARED)/golden/serving.jsonl $(SHARED)/golden/media.jsonl $(SHARED)/golden/media_counts.tsv
	$(GOLDEN) --deepseek $(SHARED)/golden/deepseek.jsonl
	$(GOLDEN) --sweep $(SHARED)/golden/sweep.jsonl.xz

scenarios: $(STAMP)
	$(BIN)/python $(SHARED)/scenarios/run.py --cli $(BIN)/promptmill

# Runs under random faults, on several Ray nodes too (root and iproute2; else without those).
ROUNDS ?= 10
chaos: $(STAMP)
	$(BIN)/pytest -m nodes
	$(BIN)/python tests/chaos/run.py --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

MINUTES ?= 20
soak: $(STAMP)
	$(BIN)/pytest -m soak
	$(BIN)/python infra/bench/soak.py --minutes $(MINUTES)

# Beside what people use today, on data of our own making where the shared data is missing.
bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[fast,bench]'
	models=$$($(BIN)/python $(SHARED)/unpack_models.py 2> /dev/null) && model=$$models/qwen3 \
	    || model=static/demo/model; \
	$(BIN)/python infra/bench/compare.py --model $$model --data $(SHARED)/data/bench \
	    --workload w1 w2 w3 --json bench.json

$(STAMP): pyproject.toml constraints.txt
	@echo "installing into $(VENV), some minutes with nothing to see: mostly downloads"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip
	$(BIN)/python -m pip install -qq --constraint constraints.txt --editable '.[all,dev]'
	touch $(STAMP)

# Write constraints.txt anew from what pip resolves today.
lock:
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --upgrade pip
	.venv-lock/bin/python -m pip install --quiet --editable '.[all,bench,dev]'
	.venv-lock/bin/python -m pip freeze --exclude-editable | LC_ALL=C sort > constraints.txt
	rm -rf .venv-lock

clean:
	rm -rf $(VENV) .links build $(DEMO_OUT) bench.json bench.md
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
