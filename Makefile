# On a machine with Python 3.11 or 3.12 (with pip) and a C++20 compiler, `make demo` and `make test` do all the set-up.
#   make PYTHON=python3.12 ...   which Python; its PyTorch is used if it has one, else torch 2.13.0 is installed in .venv

PYTHON ?= python3
export PYTHON

PY      := .venv/bin/python
STAMP   := .venv/stamp
INSTALLED := .venv/installed
CMAKE   := $(PY) -m cmake
# Where its package put it, which may be in the environment that .venv was made from.
NINJA    = $(shell $(PY) -c 'import importlib.metadata as m; print(next(f.locate().resolve() for f in m.files("ninja") if f.name == "ninja"))')
# pyproject.toml names the folder by Python's cache tag, for example build/cpython-311.
BUILD    = build/$(shell $(PY) -c 'import sys; print(sys.implementation.cache_tag)')
PLATLIB  = $(shell $(PY) -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
SETUP   := tools/setup.sh $(wildcard requirements/build.txt requirements/test*.txt)
CPP      = $(shell git ls-files --cached --others --exclude-standard 'csrc/*.h' 'csrc/*.cpp' 'tests/cpp/*.h' 'tests/cpp/*.cpp' \
           'tests/frontend/*.h' 'tests/frontend/*.cpp')
EXAMPLES = $(shell git ls-files --cached --others --exclude-standard 'examples/*.cpp')

.PHONY: help build demo test test-cpp test-python test-layers test-sizes test-headers test-distributed test-all coverage fuzz conformance models bench sanitize docs lint format tidy stubs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo | test | test-distributed | test-all | coverage | fuzz | conformance | models | bench | build | sanitize | docs | lint | format | tidy | stubs | clean"

$(STAMP): $(SETUP)
	tools/setup.sh
	@touch $@

# A stamp of its own: after a compile error the next make need not ask pip about the requirements again.
$(INSTALLED): pyproject.toml $(STAMP)
	$(PY) -m pip --disable-pip-version-check install -v --no-build-isolation --no-deps \
	  --config-settings=cmake.define.THUNDER_BUILD_TESTS=ON -e .
	@touch $@

# Compiles what changed, and puts the extension where the editable install expects it.
build: $(INSTALLED)
	@$(CMAKE) --build $(BUILD) --target _C
	@$(CMAKE) --install $(BUILD) --prefix $(PLATLIB) > build/install.log || { cat build/install.log; exit 1; }

# ARGS=--compare for torch.compile too (a minute).
demo: build
	$(PY) examples/demo.py $(ARGS)

# Runs every part even if one fails, and fails if any did.  pytest comes last: its closing line is the one to look at.
test: build
	@status=0; \
	$(MAKE) --no-print-directory test-layers || status=1; \
	$(MAKE) --no-print-directory test-cpp || status=1; \
	$(MAKE) --no-print-directory test-headers || status=1; \
	$(MAKE) --no-print-directory test-python || status=1; \
	exit $$status

test-layers: $(STAMP)
	$(PY) tools/check_layers.py

# Files, functions and classes of a size that a reader can take in.
test-sizes: $(STAMP)
	$(PY) tools/check_sizes.py

# After what compiles, because ninja knows then which headers were used.
test-headers: $(INSTALLED)
	@$(CMAKE) --build $(BUILD) --target _C thunder_tests thunder_frontend_tests
	$(PY) tools/check_headers.py $(BUILD) $(NINJA)

test-cpp: $(INSTALLED)
	@$(CMAKE) --build $(BUILD) --target thunder_tests thunder_frontend_tests
	@status=0; \
	$(BUILD)/thunder_tests || status=1; \
	$(PY) tests/frontend/run.py $(BUILD) || status=1; \
	exit $$status

# Ten times the random programs of `make test`; THUNDER_FUZZ_SEED=n for others.  Then those of the front end, which say
# how one of them is run alone, and those over tensors (tests/python/fuzz.py --programs 100000 --jobs 16 for more).
fuzz: build
	@$(CMAKE) --build $(BUILD) --target thunder_tests
	THUNDER_FUZZ=10000 $(BUILD)/thunder_tests -tc="fuzz*"
	THUNDER_VERIFY=1 $(PY) tests/python/fuzz_front_end.py --seed $(or $(THUNDER_FUZZ_SEED),0) --programs 1500
	THUNDER_VERIFY=1 $(PY) tests/python/fuzz.py --seed $(or $(THUNDER_FUZZ_SEED),0) --programs 5000 --jobs 2
	$(PY) tests/python/fuzz_arguments.py --seed $(or $(THUNDER_FUZZ_SEED),0) --cases 20000 --jobs 2

# CPython's own tests under the interpreter, minutes.  ARGS=test_grammar for a file of them, ARGS=--write for docs/conformance.md.
conformance: build
	$(PY) tools/conformance.py $(ARGS)

# Everything: every sample of PyTorch's databases in every dtype, with single operators as kernels too, the table of
# models at several shapes, the matrix of compilers.  Hours; SHARD=3/16 for a part.  What has passed is kept in STATE
# and not run again until something changes, so a run that was stopped goes on.
STATE ?= build/test-all
test-all: build .venv/models-stamp
	THUNDER_ALL_SAMPLES=1 $(RUN_PYTEST) --shard $(or $(SHARD),1/1) --state $(STATE) $(PYTEST)

# The table of that, docs/coverage.md.  ARGS="linalg --most 4": the entries whose name matches, and only so many samples.
coverage: build
	$(PY) tools/coverage.py $(or $(ARGS),--write)

# WORKERS=0 for one process.
WORKERS ?= $(shell $(PY) -c 'import os; print(len(os.sched_getaffinity(0)))')
RUN_PYTEST = $(PY) -m pytest -n $(WORKERS) --dist worksteal

# PYTEST="-k name -x" for a part of them.
test-python: build
	$(RUN_PYTEST) $(PYTEST)

# Every combination of settings on several processes (minutes).
test-distributed: build
	THUNDER_ALL_DISTRIBUTED=1 $(RUN_PYTEST) tests/distributed $(PYTEST)

# A machine's own transformers will do.
.venv/models-stamp: requirements/models.txt $(STAMP)
	$(PY) -c "import transformers" 2> /dev/null || $(PY) -m pip install --quiet -r requirements/models.txt
	@touch $@

# The table of Hugging Face models against eager (a few minutes).  ARGS="llama t5" for some, ARGS=--generate for generation.
models: build .venv/models-stamp
	$(PY) tests/models/run.py $(ARGS)

# BENCH=benchmarks/bench_call.py for one of them; ARGS=--compare for torch.compile's first step (a minute) and fused kernels too.
bench: build
	$(PY) benchmarks/run.py $(BENCH) $(ARGS)

# What handles Python's own objects.
SANITIZED = $(patsubst %,tests/python/test_%.py,effects soundness interpreter interpreter_tracebacks custom_function symbolic \
  symbolic_numbers results jit torch_operators)

sanitize: $(STAMP)
	@$(CMAKE) --preset sanitize -DCMAKE_MAKE_PROGRAM="$(NINJA)"
	@$(CMAKE) --build --preset sanitize
	build/sanitize/thunder_tests
	$(PY) -m pip --disable-pip-version-check install -q --no-build-isolation --no-deps --upgrade \
	  --target build/sanitize-site -C build-dir=build/sanitize-python -C cmake.define.THUNDER_SANITIZE=address .
	ASAN_OPTIONS=detect_leaks=0:log_path=build/sanitizer-report OMP_NUM_THREADS=1 \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  $(PY) tools/pytest_of.py $(CURDIR)/build/sanitize-site -q -p no:cacheprovider $(SANITIZED)

# The reference pages, from the registry.
docs: build
	$(PY) tools/make_reference.py

.venv/lint-stamp: requirements/lint.txt $(STAMP)
	$(PY) -m pip install --quiet -r requirements/lint.txt
	@touch $@

lint: .venv/lint-stamp test-layers test-sizes
	$(PY) -m ruff check .
	.venv/bin/clang-format --dry-run -Werror $(CPP) $(EXAMPLES)

format: .venv/lint-stamp
	$(PY) -m ruff check --fix .
	.venv/bin/clang-format -i $(CPP) $(EXAMPLES)

# Slow, so not a part of lint.  TIDY="csrc/core/op.cpp" for some files, ARGS="--warnings-as-errors='*'" for an exit status.
# Nothing is compiled: a folder of its own has one command for each file.
tidy: $(STAMP)
	@mkdir -p build
	@$(CMAKE) -S . -B build/tidy -G Ninja -DCMAKE_MAKE_PROGRAM="$(NINJA)" -DPython_EXECUTABLE="$(abspath $(PY))" \
	  -DTHUNDER_BUILD_TESTS=ON -DTHUNDER_PCH=OFF -DTHUNDER_UNITY=OFF > build/tidy.log || { cat build/tidy.log; exit 1; }
	clang-tidy -p build/tidy --quiet $(ARGS) $(or $(TIDY),$(filter %.cpp,$(CPP)))

# thunder/_C.pyi and _jit.pyi, committed: made from the built module, which needs PyTorch loaded first, so by hand and
# not by CMake.
stubs: build
	$(PY) -m nanobind.stubgen -q -m thunder._C -p tools/stub_patterns.txt -o thunder/_C.pyi
	$(PY) tools/make_jit_stub.py

clean:
	rm -rf build dist .venv .pytest_cache .hypothesis .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
