"""The rules of CONTRIBUTING.md that the source itself can be asked about: sizes, defaults and who imports whom."""

import ast
import re
from graphlib import TopologicalSorter

from documentation import ROOT

PACKAGE = "bert_fused_plugin"
FOLDERS = (PACKAGE, "fairseq_compat", "tests", "benchmarks", "examples")
LONGEST_FILE, LONGEST_FUNCTION = 450, 45
# getattr with a default hides a misspelt name: an attribute that may be missing needs a reason
DEFAULTS = {
    ("tasks/bert_fused_translation.py", "getattr(args, 'beam', None)"): "--eval-bleu-args need not name it",
    ("tasks/bert_fused_translation.py", "getattr(args, 'print_alignment', None)"): "--eval-bleu-args need not name it",
}


def sources(*folders):
    """Return {path from the root: text} of the Python files in *folders*."""
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}


def functions_above(limit, text):
    """Return "name, n lines" of each function that has more than *limit* lines, without its decorators."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            size = node.end_lineno - node.lineno + 1
            found += [f"{node.name}, {size} lines"] if size > limit else []
    return found


def defaults_of_getattr(text):
    """Return each call of getattr that has a default."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [ast.unparse(call) for call in calls if ast.unparse(call.func) == "getattr" and len(call.args) > 2]


def imports_of(text):
    """Return the folders, and the files beside them, of the package that *text* imports from."""
    return set(re.findall(rf"^ *(?:from|import) {PACKAGE}(?:\.| import )(\w+)", text, re.MULTILINE))


def test_no_file_is_too_long():
    sizes = {path: len(text.splitlines()) for path, text in sources(*FOLDERS).items()}
    too_long = {path: size for path, size in sizes.items() if size > LONGEST_FILE}
    assert not too_long, f"split these files by concept: a file has at most {LONGEST_FILE} lines"


def test_no_function_is_too_long():
    found = {path: functions_above(LONGEST_FUNCTION, text) for path, text in sources(PACKAGE).items()}
    too_long = {path: names for path, names in found.items() if names}
    assert not too_long, f"split these functions: a function has at most {LONGEST_FUNCTION} lines"


def test_no_attribute_has_a_default():
    found = {
        (path[len(PACKAGE) + 1 :], call)
        for path, text in sources(PACKAGE).items()
        for call in defaults_of_getattr(text)
    }
    assert not found - set(DEFAULTS), "a default is written in one place, with the flag; a missing name is an error"


def test_modules_import_nothing_from_other_folders_of_the_package():
    found = {path: imports_of(text) for path, text in sources(f"{PACKAGE}/modules").items()}
    assert set().union(*found.values()) == {"modules"}, found


def test_no_folders_of_the_package_import_each_other():
    imports = {}
    for path, text in sources(PACKAGE).items():
        _, folder, *file = path.split("/")
        if file:
            imports.setdefault(folder, set()).update(imports_of(text) - {folder})
    assert len(imports) > 5
    TopologicalSorter(imports).prepare()  # which raises an error that names a circle
