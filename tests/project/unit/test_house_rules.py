"""The rules of CONTRIBUTING.md that the source itself can be asked about: sizes, defaults and who imports whom."""

import ast
import re
from graphlib import TopologicalSorter

import pytest
from documentation import ROOT

PACKAGE, LAB = "bert_fused_plugin", "bert_fused_lab"
FOLDERS = (PACKAGE, LAB, "fairseq_compat", "tests", "benchmarks", "examples")
LONGEST_FILE, LONGEST_FUNCTION = 450, 45
# getattr with a default hides a misspelt name: an attribute that may be missing needs a reason
DEFAULTS = {
    ("tasks/bert_fused_translation.py", "getattr(args, 'print_alignment', None)"): "--eval-bleu-args need not name it",
}


def sources(*folders):
    """Return {path from the root: text} of the Python files in *folders*."""
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}


def nodes(kind, *folders):
    """Return (path, node) of each node of a *kind* in the Python files of *folders*."""
    found = [(path, node) for path, text in sources(*folders).items() for node in ast.walk(ast.parse(text))]
    return [(path, node) for path, node in found if isinstance(node, kind)]


def imports_of(text, package=PACKAGE):
    """Return the folders, and the files beside them, of the *package* that *text* imports from."""
    return set(re.findall(rf"^ *(?:from|import) {package}(?:\.| import )(\w+)", text, re.MULTILINE))


def test_no_file_is_too_long():
    sizes = {path: len(text.splitlines()) for path, text in sources(*FOLDERS).items()}
    too_long = {path: size for path, size in sizes.items() if size > LONGEST_FILE}
    assert not too_long, f"split these files by concept: a file has at most {LONGEST_FILE} lines"


def test_no_function_is_too_long():
    functions = nodes((ast.FunctionDef, ast.AsyncFunctionDef), PACKAGE, LAB)  # without their decorators
    too_long = [(path, f.name) for path, f in functions if f.end_lineno - f.lineno >= LONGEST_FUNCTION]
    assert not too_long, f"split these functions: a function has at most {LONGEST_FUNCTION} lines"


def test_no_attribute_has_a_default():
    calls = [(path, call) for path, call in nodes(ast.Call, PACKAGE, LAB) if ast.unparse(call.func) == "getattr"]
    found = {(path.partition("/")[2], ast.unparse(call)) for path, call in calls if len(call.args) > 2}
    assert found == set(DEFAULTS), "a default is written in one place, with the flag; a missing name is an error"


def test_modules_import_nothing_from_other_folders_of_the_package():
    found = {path: imports_of(text) for path, text in sources(f"{PACKAGE}/modules").items()}
    assert set().union(*found.values()) == {"modules"}, found


def test_the_plug_in_imports_nothing_that_judges():
    found = {path for path, text in sources(PACKAGE, "fairseq_compat").items() if re.search(rf"\b{LAB}\b", text)}
    assert not found


def test_no_pickle_is_read_but_by_fairseq_compat():
    """Its reader and fairseq's functions, which it adapts, refuse what would run code."""
    unsafe = r"\b(torch|joblib)\.load\b|^ *(import|from) (pickle|joblib|shelve)\b|\ballow_pickle|\bweights_only=False"
    assert [path for path, text in sources(PACKAGE, LAB).items() if re.search(unsafe, text, re.MULTILINE)] == []


@pytest.mark.parametrize("package", [PACKAGE, LAB])
def test_no_folders_of_a_package_import_each_other(package):
    imports = {}
    for path, text in sources(package).items():
        _, folder, *file = path.split("/")
        if file:
            imports.setdefault(folder, set()).update(imports_of(text, package) - {folder})
    assert len(imports) > 3
    TopologicalSorter(imports).prepare()  # which raises an error that names a circle


def test_only_the_evidence_loads_models_to_judge_them():
    """The report runs where neither torch nor fairseq is installed."""
    for path, text in sources(LAB).items():
        if path.startswith(f"{LAB}/report/") or path in (f"{LAB}/arguments.py", f"{LAB}/evidence/files.py"):
            found = re.findall(rf"^(?:from|import) (torch|fairseq|transformers|{PACKAGE})\b", text, re.MULTILINE)
            assert not found, path
