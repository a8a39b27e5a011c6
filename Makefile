# The front door. Everything is made below build/; nothing is installed on the system.

PYTHON ?= python3
VENV := build/venv/bin
CONFIGURED := build/release/build.ninja
WHEEL := build/stamps/wheel
PEERS := build/stamps/peers
OLDEST := PYTHONPATH=build/oldest-onnxruntime

.PHONY: help setup build wheel test test-full test-unit test-e2e test-conformance test-models demo peers bench bench-llm lint format asan tsan clean

help:
	@echo 'make demo    run SmolLM2 on Tandem and on ONNX Runtime CPU, side by side'
	@echo 'make test    unit tests, end-to-end tests on the newest and the oldest ONNX Runtime, and the tests of the onnx package'
	@echo 'make test-full  the same, and real models from packages'
	@echo 'make bench   memory and speed of the pair of prefill and decode beside its peers, and from a bundle'
	@echo 'make bench-llm  speed of an LLM beside ORT GenAI, OpenVINO GenAI, llama.cpp and others'
	@echo 'make wheel   the Python wheel, in build/wheel'
	@echo 'make lint    formatting, clang-tidy and ruff'
	@echo 'make asan    unit tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make tsan    unit tests under ThreadSanitizer'

setup:
	@$(PYTHON) tools/bootstrap.py

$(CONFIGURED): CMakePresets.json | setup
	@cmake --preset release > build/configure.log || { cat build/configure.log; exit 1; }

build: setup $(CONFIGURED)
	@cmake --build --preset release

wheel: build
	@mkdir -p build/wheel
	@$(VENV)/python -m pip -q --disable-pip-version-check wheel . --no-deps --no-build-isolation -w build/wheel
	@$(VENV)/python -m pip -q --disable-pip-version-check install --no-deps --force-reinstall build/wheel/*.whl

test: test-unit test-e2e test-conformance

test-full: test test-models

test-unit: build
	@ctest --preset release

test-e2e: wheel
	@$(VENV)/python -m pytest --junitxml=build/test-results/newest.xml
	@$(OLDEST) $(VENV)/python -m pytest --junitxml=build/test-results/oldest.xml

test-conformance: wheel
	@$(VENV)/python -m pytest tests/conformance --junitxml=build/test-results/conformance.xml

test-models: wheel
	@$(VENV)/python -m pytest tests/models -s --junitxml=build/test-results/models.xml

demo: wheel
	@$(VENV)/python examples/smollm2/demo.py build/smollm2

bench: wheel
	@$(VENV)/python bench/run.py pair --weights f32 --models build/smollm2
	@$(VENV)/python bench/run.py pair --weights f16 --models build/smollm2
	@$(VENV)/python bench/run.py pair --weights int4 --models build/smollm2
	@$(VENV)/python bench/run.py bundle --models build/smollm2
	@$(VENV)/python bench/run.py processes --models build/smollm2

# The C++ of llama.cpp is compiled here, for this CPU.
$(PEERS): requirements/peers.txt | setup
	@rm -rf build/peers
	@CMAKE_ARGS='-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON' $(VENV)/python -m pip -q --disable-pip-version-check \
		install --no-deps --no-build-isolation --target build/peers -r requirements/peers.txt
	@touch $@

peers: $(PEERS)

bench-llm: wheel peers
	@$(VENV)/python bench/run.py llm --models build/smollm2

lint: build
	@$(VENV)/python tools/lint.py

format: setup
	@$(VENV)/python tools/lint.py --fix

asan tsan: setup
	@cmake --preset $@ > build/configure-$@.log || { cat build/configure-$@.log; exit 1; }
	@cmake --build --preset $@
	@ctest --preset $@

clean:
	rm -rf build
