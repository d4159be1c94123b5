#!/usr/bin/env python
"""Prints the oldest versions that setup.py allows, as constraints for pip.

All of these versions have wheels for Python 3.9, and for no other:

    pip install -c <(scripts/lower_bounds.py) -e '.[dev]'
    pip install --no-deps fairseq==0.12.2
"""

import ast
import re
from pathlib import Path
from typing import List

SETUP = Path(__file__).resolve().parents[1] / "setup.py"


def main() -> None:
    """Print one constraint a line."""
    print("\n".join(constraints(requirements(SETUP.read_text(encoding="utf-8")))))


def requirements(setup: str) -> List[str]:
    """Return install_requires of the text of a setup.py, which is not run.

    Raises:
        ValueError: it has none.
    """
    for node in ast.walk(ast.parse(setup)):
        if isinstance(node, ast.keyword) and node.arg == "install_requires":
            return ast.literal_eval(node.value)
    raise ValueError("setup.py has no install_requires")


def constraints(required: List[str]) -> List[str]:
    """Return name==version for each name>=version; a requirement without a lower bound has no line."""
    found = (re.match(r"([\w.-]+)\s*>=\s*([\w.]+)", requirement) for requirement in required)
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    main()
