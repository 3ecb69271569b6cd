# The front door: each target first provides what it needs, then does one thing. CMake does the building.
#   make build | demo | test | check | sanitize | coverage | fuzz | bench | docs | format | wheel | clean
# DEBUG=1 (unoptimised, with symbols), MAX_JOBS, CMAKE_ARGS, USE_CUDA, PYTHON and CXX are honoured.
SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: build demo test test-cpp check sanitize coverage fuzz bench docs format wheel clean configured sanitize-run \
  coverage-run

PY := .venv/bin/python
BUILD ?= build
MAX_JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(MAX_JOBS)
export PYTHONDONTWRITEBYTECODE := 1
# Working trees share what they compile alike.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1

configure := cmake -S . -B $(BUILD) -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) \
  -DCMAKE_BUILD_TYPE=$(if $(filter 1 ON,$(DEBUG)),Debug,Release) \
  $(if $(USE_CUDA),-DUSE_CUDA=$(USE_CUDA)) $(VARIANT_ARGS) $(CMAKE_ARGS)

# Configures only when the settings changed; afterwards ninja asks CMake again by itself when a list of files did.
define configured
@mkdir -p $(BUILD)
@[ -e $(BUILD)/build.ninja ] && [ "$$(cat $(BUILD)/settings 2>/dev/null)" = '$(configure)' ] || \
  { $(configure) >$(BUILD)/configure.log 2>&1 && echo '$(configure)' >$(BUILD)/settings; } || \
  { cat $(BUILD)/configure.log; exit 1; }
endef

build:
	@tools/setup.sh build
	$(configured)
	@cmake --build $(BUILD) $(BUILD_ARGS)
	@$(PY) -c "import sysconfig; print('$(CURDIR)/$(BUILD)/python', file=open(sysconfig.get_path('purelib') + '/flambeau-tree.pth', 'w'))"

test: build
	@tools/setup.sh test
	@$(MAKE) --no-print-directory test-cpp
	$(PY) -m pytest $(PYTEST_ARGS)

test-cpp:
	@cmake --build $(BUILD) --target flambeau_tests examples
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=ignore

demo: build
	@tools/setup.sh demo
	$(PY) examples/fashion_mnist.py $(DEMO_ARGS)

check: build
	@tools/setup.sh check
	@$(PY) -m tools.check --build $(BUILD)

format:
	@tools/setup.sh check
	@git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' | xargs -r clang-format-14 -i
	@.venv/bin/ruff format -q . && .venv/bin/ruff check -q --fix .

# Address and undefined-behaviour sanitizers over all tests (Python gets the runtime by preloading), then the thread
# sanitizer over the C++ ones: pool, allocator, tape. Each in a build of its own.
sanitize:
	@tools/setup.sh build test
	@$(MAKE) --no-print-directory BUILD=build-sanitize \
	  VARIANT_ARGS='-DFLAMBEAU_SANITIZE=address,undefined -DCMAKE_CXX_FLAGS_RELEASE=-O1' sanitize-run
	@$(MAKE) --no-print-directory BUILD=build-tsan configured test-cpp \
	  VARIANT_ARGS='-DFLAMBEAU_SANITIZE=thread -DFLAMBEAU_PYTHON=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O1'

configured:
	$(configured)

# Tests ask for more than there is, and Python keeps what it has until it ends.
ASAN := allocator_may_return_null=1:detect_leaks=0
sanitize-run: configured
	@cmake --build $(BUILD) $(BUILD_ARGS)
	ASAN_OPTIONS=$(ASAN) $(MAKE) --no-print-directory BUILD=$(BUILD) test-cpp
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" ASAN_OPTIONS=$(ASAN) \
	  PYTHONPATH=$(CURDIR)/$(BUILD)/python $(PY) -m pytest $(PYTEST_ARGS)

# Which lines run in the tests, in a build of its own. What calls cost is not measured: counting costs more.
coverage:
	@tools/setup.sh build test coverage
	@$(MAKE) --no-print-directory BUILD=build-coverage \
	  VARIANT_ARGS='-DCMAKE_CXX_FLAGS=--coverage -DCMAKE_CXX_FLAGS_RELEASE=-O1' coverage-run

coverage-run: configured
	@cmake --build $(BUILD) $(BUILD_ARGS)
	@find $(BUILD) \( -name '*.gcda' -o -name 'python.coverage*' \) -delete
	-@$(MAKE) --no-print-directory BUILD=$(BUILD) test-cpp
	-PYTHONPATH=$(CURDIR)/$(BUILD)/python $(PY) -m coverage run -m pytest -m "not measured" $(PYTEST_ARGS)
	@$(PY) -m tools.coverage --build $(BUILD)

# Random ops with random valid and invalid arguments; FUZZ_ARGS="--minutes 1".
fuzz: build
	@tools/setup.sh test
	$(PY) -X faulthandler -m tests.fuzz $(FUZZ_ARGS)

bench: build
	@tools/setup.sh test
	$(PY) -m benchmarks $(BENCH_ARGS)

# The reference, the guides and the choices as HTML, in build/docs.
docs: build
	@tools/setup.sh docs
	@rm -rf $(BUILD)/docs $(BUILD)/docs-cache
	@$(PY) -m tools.reference --out $(BUILD)/docs-source
	@$(PY) -m sphinx -q -W --keep-going -b html -d $(BUILD)/docs-cache -c docs $(BUILD)/docs-source $(BUILD)/docs
	@echo "docs: $$(find $(BUILD)/docs -name '*.html' | wc -l) pages, $(BUILD)/docs/index.html is the first"

wheel:
	@tools/setup.sh build
	.venv/bin/pip wheel -q --no-deps --no-build-isolation -w dist .
	@ls -l dist

clean:
	rm -rf build build-* dist
