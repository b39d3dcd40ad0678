# Shoal in a few words. PRESET chooses the build: release (the default), dev, asan or tsan.
#
#   make tour     build and run the tutorial, the tours of pmap and of transformations, and the examples of many processes
#   make test     build everything and run the tests
#   make python   build the Python package and install it into build/python/venv, where `make test` tries it
#   make reference  write the reference, a page for each function, to build/reference
#   make install  build the library and the tool, and install them to PREFIX, /usr/local by default
#   make bench    build and run the benchmarks, and compare with others, which are kept in PEERS
#   make lint     formatting, layers, public headers, clang-tidy; FILES="src/a.cc ..." limits clang-tidy to those
#   make format   format the sources in place

PRESET ?= release
JOBS ?= $(shell nproc)
FILES ?=
PREFIX ?= /usr/local
PEERS ?= /tmp/shoal_peers
process_examples = device_grid multi_process data_parallel heat solve

.PHONY: tour test python reference install bench lint format setup configure
.DEFAULT_GOAL := test

setup:
	@tools/setup.sh

configure: setup
	@cmake --preset $(PRESET) >/dev/null

tour: configure
	@cmake --build --preset $(PRESET) -j $(JOBS) --target tutorial pmap_tour transformations shoal_tool $(process_examples)
	@build/$(PRESET)/bin/tutorial
	@build/$(PRESET)/bin/pmap_tour
	@build/$(PRESET)/bin/transformations
	@for example in $(process_examples); do \
	  for layout in "2 4" "4 2"; do \
	    set -- $$layout; \
	    echo; echo "=== $$example in $$1 processes of $$2 devices"; \
	    build/$(PRESET)/bin/shoal run -n $$1 --devices-per-process $$2 -- build/$(PRESET)/bin/$$example || exit 1; \
	  done; \
	done

test: configure
	@cmake --build --preset $(PRESET) -j $(JOBS)
	@if [ $(PRESET) = release ]; then tools/data.sh || true; tools/python.sh; fi
	@status=0; ctest --preset $(PRESET) -j $(JOBS) || status=$$?; tools/check_skips.py build/$(PRESET); exit $$status

python: setup
	@tools/python.sh

reference: python
	@build/python/venv/bin/python tools/reference.py --pages build/reference

install: configure
	@cmake --build --preset $(PRESET) -j $(JOBS) --target shoal shoal_tool
	@cmake --install build/$(PRESET) --prefix $(PREFIX)

bench: configure
	@cmake --build --preset $(PRESET) -j $(JOBS) --target bench
	@benchmarks/compare/compare.py --folder $(PEERS) --build build/$(PRESET)
	@tools/python.sh
	@benchmarks/compare/python_calls.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python
	@benchmarks/compare/python_functions.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python
	@benchmarks/compare/python_linalg.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python
	@benchmarks/compare/python_windows.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python
	@benchmarks/compare/python_optimizers.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python
	@benchmarks/compare/python_fft.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python
	@benchmarks/compare/python_loops.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python
	@benchmarks/compare/python_attention.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python
	@benchmarks/compare/python_derivatives.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python
	@benchmarks/compare/python_random.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python
	@benchmarks/compare/python_training.py --shoal build/python/venv/bin/python --jax $(PEERS)/venv/bin/python

lint: setup
	@tools/setup.sh --lint
	@JOBS=$(JOBS) tools/lint.sh $(FILES)

format:
	@tools/setup.sh --lint
	@tools/lint.sh --format
