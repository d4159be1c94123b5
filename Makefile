bin := $(or $(VENV),.venv)/bin

.PHONY: setup format check test
setup:  ## make .venv
	scripts/setup.sh
format: setup  ## rewrite the code in the project's style
	$(bin)/ruff check --fix .
	$(bin)/ruff format .
check: setup  ## lint, format and types
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
test:  ## check, and the tests that find most bugs
	scripts/test.sh
