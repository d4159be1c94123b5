"""A view of a module in which some names differ."""

import sys
from types import ModuleType
from typing import Any


def overlay(module: ModuleType, **names: Any) -> ModuleType:
    """Return a view of *module* in which *names* differ, to stand in for one importer's global."""
    view = type(sys)(module.__name__, module.__doc__)
    vars(view).update(__getattr__=lambda name: getattr(module, name), **names)
    return view
