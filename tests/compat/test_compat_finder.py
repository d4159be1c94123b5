"""The finder of fairseq_compat: it adapts the modules that it names, leaves no trace and breaks nothing."""

import importlib
import importlib.machinery
import importlib.util
import re
import subprocess
import sys

import pytest
from documentation import ROOT

import fairseq_compat
from fairseq_compat import patches


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A module `compat_toy` with VALUE = 1, which the hook is told to set to 2."""
    (tmp_path / "compat_toy.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(fairseq_compat._PATCHES, "compat_toy", ("toy_patch",))
    monkeypatch.setattr(patches, "toy_patch", lambda module: setattr(module, "VALUE", 2), raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    fairseq_compat._install()  # in front of pytest's own finder
    yield "compat_toy"
    sys.modules.pop("compat_toy", None)


def test_a_module_is_adapted_and_looks_as_without_the_hook(toy):
    module = importlib.import_module(toy)
    assert module.VALUE == 2
    assert type(module.__spec__.loader) is importlib.machinery.SourceFileLoader
    assert module.__loader__ is module.__spec__.loader
    assert importlib.reload(module).VALUE == 2


def test_a_module_imported_before_the_hook_is_adapted_once(toy, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not hasattr(f, "is_fairseq_compat")])
    module = importlib.import_module(toy)
    assert module.VALUE == 1
    fairseq_compat._install()
    assert module.VALUE == 2
    module.VALUE = 3
    fairseq_compat._install()
    assert module.VALUE == 3


def test_installing_twice_leaves_one_finder_in_front(toy):
    fairseq_compat._install()
    again = importlib.util.spec_from_file_location("loaded_again", fairseq_compat.__file__)
    again.loader.exec_module(importlib.util.module_from_spec(again))
    assert [hasattr(finder, "is_fairseq_compat") for finder in sys.meta_path].count(True) == 1
    assert hasattr(sys.meta_path[0], "is_fairseq_compat")


@pytest.fixture
def misfit(toy, monkeypatch):
    def broken(module):
        return module.NO_SUCH_NAME

    monkeypatch.setattr(patches, "toy_patch", broken)
    return toy


def test_a_patch_that_does_not_fit_leaves_the_module_as_it_is_and_says_so(misfit, capsys):
    assert importlib.import_module(misfit).VALUE == 1
    err = capsys.readouterr().err
    assert re.match(
        r"warning: fairseq_compat cannot adapt compat_toy \(fairseq .*, torch .*NO_SUCH_NAME.*0\.12\.2", err
    )
    assert err.count("\n") == 1


def test_without_safe_checkpoints_nothing_is_imported(misfit, monkeypatch):
    monkeypatch.setattr(fairseq_compat, "_NEEDED", ("toy_patch",))
    with pytest.raises(ImportError, match=r"cannot adapt compat_toy \(fairseq .*, torch .*NO_SUCH_NAME.*0\.12\.2"):
        importlib.import_module(misfit)
    assert misfit not in sys.modules


def test_the_environment_switches_all_of_it_off(toy, monkeypatch):
    monkeypatch.setenv("FAIRSEQ_COMPAT", "0")
    assert not isinstance(importlib.util.find_spec(toy).loader, fairseq_compat._PatchingLoader)
    module = importlib.import_module(toy)
    assert module.VALUE == 1
    fairseq_compat._install()  # with the module already imported
    assert module.VALUE == 1
    assert "__fairseq_compat__" not in vars(module)


NEW = "old = {*sys.modules}; import %s; new = {*sys.modules} - old"
OF_BERT = "transformers tokenizers huggingface_hub sacremoses matplotlib sympy torch._dynamo".split()
METHOD = "import fairseq, multiprocessing; print(multiprocessing.get_start_method())"


@pytest.mark.parametrize(
    ("flags", "code", "printed"),
    [
        (["-I", "-S"], f"sys.path.insert(0, {str(ROOT)!r}); {NEW % 'fairseq_compat'}; print(*new)", "fairseq_compat"),
        ([], f"import fairseq_cli.generate; {NEW % 'bert_fused_plugin'}; print(*new & {{*{OF_BERT}}})", ""),
        ([], METHOD, "fork"),
        ([], f"import multiprocessing; multiprocessing.set_start_method('spawn'); {METHOD}", "spawn"),
    ],
    ids=["the hook alone", "no library of BERT for a plain model", "workers that share memory", "as chosen"],
)
def test_what_is_imported_and_how_workers_start(flags, code, printed):
    done = subprocess.run([sys.executable, *flags, "-c", f"import sys; {code}"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, printed), done.stderr
