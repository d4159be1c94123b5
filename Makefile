bin := $(or $(VENV),.venv)/bin

.PHONY: setup format check test
setup:  ## make .venv
	scripts/setup.sh
format: setup  ## rewrite the code in the project's style
	$(bin)/ruff check --fix .
	$(bin)/ruff format .
check:  ## lint, format and types
	scripts/test.sh --check
test:  ## check, and the tests that find most bugs
	scripts/test.sh
