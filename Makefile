# All targets run in .venv, which is created from pyproject.toml and constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
DEMO := .venv/demo

.PHONY: demo test lint docs format bench kills fuzz clean

demo: $(INSTALLED)
	@rm -rf $(DEMO)
	@echo '== A queue-augmented network learns to copy strings of 8 to 64 symbols.'
	$(BIN)/stacktrans train --task copy --memory queue --time-limit 3m --out $(DEMO)
	@echo; echo '== Strings twice as long.'
	$(BIN)/stacktrans eval $(DEMO) --lengths 65:128
	@echo; echo '== A string of your own.'
	echo 'Hello,world!' | $(BIN)/stacktrans transduce $(DEMO)
	@echo; echo '== What it does with its queue.'
	$(BIN)/stacktrans inspect $(DEMO) abcde

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(INSTALLED)
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(INSTALLED)
	$(BIN)/python benchmarks/speed.py --markdown benchmarks/README.md
	$(BIN)/python benchmarks/sweeps.py --markdown benchmarks/sweeps.md

fuzz: $(INSTALLED)
	$(BIN)/python benchmarks/fuzz.py --markdown benchmarks/robustness.md

kills: $(INSTALLED)
	$(BIN)/python benchmarks/kills.py --markdown benchmarks/robustness.md

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,lint,docs]'
	@touch $@
