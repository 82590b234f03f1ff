# Both targets do everything a fresh Debian or Ubuntu machine needs; see the README for its cost.

.PHONY: demo test setup lock

demo:
	@HIL_SETUP_COMMAND='make demo' tools/setup
	@.venv/bin/hil demo $(ARGS)

# All three are run, whatever the first ones say; pytest's closing line comes last.
test:
	@HIL_SETUP_COMMAND='make test' tools/setup
	@status=0; \
	.venv/bin/ruff check . || status=1; \
	.venv/bin/mypy || status=1; \
	.venv/bin/python -m pytest $(ARGS) || status=1; \
	exit $$status

setup:
	@HIL_SETUP_COMMAND='make setup' tools/setup

lock:
	@HIL_SETUP_COMMAND='make setup' tools/setup
	@tools/lock
