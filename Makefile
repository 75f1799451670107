# The two commands are 'make demo' and 'make test'; each sets up all it needs.
.PHONY: demo test coverage test-accuracy test-realcli lint torture bench evaluation docs lock clean help
help:  ## list the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

demo:  ## two pipelines of four scripted agents each, four faults injected and mended
	@scripts/setup run
	@.venv/bin/dogwatch demo $(ARGS)

# With bytecode on disk, whatever the environment says: tests start thousands of interpreters.
test:  ## all tests (ARGS='-k name' narrows)
	@scripts/setup dev
	@env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m pytest -n 8 --dist worksteal $(ARGS)

coverage:  ## all tests once more, slowly: how much of the code they run, and the least covered files
	@scripts/setup dev
	@.venv/bin/python scripts/measure_coverage.py $(ARGS)

test-accuracy:  ## 171 kinds of behaviour on real screens: none mistaken, nobody touched in error (ARGS='--only NAME')
	@scripts/setup dev
	@.venv/bin/python -m bench.accuracy_check $(ARGS)

test-realcli:  ## the harness contract on real agent CLIs from npm, against the scripted model
	@scripts/setup realcli
	@.venv/bin/python -m pytest -n 3 --dist worksteal tests/realcli $(ARGS)

lint:  ## ruff, mypy --strict, the layer contract
	@scripts/setup dev
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports

torture:  ## kill everything at random and lose nothing: ENGINE=sqlite|postgresql KILLS=1000 [SEED=N]
	@scripts/setup dev
	@.venv/bin/python -m torture --engine $(or $(ENGINE),sqlite) --kills $(or $(KILLS),1000) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench:  ## all benchmarks, or one: make bench NAME=ledger; STALE=1 lists old results; AGAINST=<commit> [ROUNDS=5] compares
	@scripts/setup $(if $(STALE),run,bench)
	@.venv/bin/python -m bench $(if $(STALE),--stale,$(NAME)) $(if $(AGAINST),--against '$(AGAINST)' $(if $(ROUNDS),--rounds '$(ROUNDS)'))

evaluation:  ## what admission is worth: on real processes (about 10 min), or simulated (ARGS='overnight --seeds 2')
	@scripts/setup run
	@.venv/bin/python -m evaluation $(ARGS)

docs:  ## write the generated references and diagrams anew
	@scripts/setup dev
	@.venv/bin/python scripts/docs.py

lock:  ## resolve the locked requirements anew (needs uv)
	@for part in run: dev:--group=dev bench:--group=dev,--group=bench; do \
	  uv pip compile -q --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 \
	    pyproject.toml $$(echo "$${part#*:}" | tr ',' ' ') -o requirements/$${part%%:*}.txt; done

clean:  ## remove what was set up
	rm -rf .venv .clients .mypy_cache .ruff_cache .pytest_cache .hypothesis
