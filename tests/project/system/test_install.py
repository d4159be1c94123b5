"""The package as a user gets it: a wheel, installed into a fresh environment and removed again."""

import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from documentation import ROOT

PACKAGES = ("bert_fused_plugin", "bert_fused_lab", "fairseq_compat")
STARTUP_FILE = "bert_fused_plugin_compat.pth"
HOOKED = "import sys; print([type(f).__module__ for f in sys.meta_path].count('fairseq_compat'))"

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def run(*command, cwd):
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env.pop("PYTHONPATH", None)
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """What the Dockerfile copies into the image, so that building leaves nothing in the repository."""
    folder = tmp_path_factory.mktemp("source") / "repo"
    folder.mkdir()
    for copied in re.findall("^COPY (.*)$", DOCKERFILE, re.MULTILINE):
        *names, target = copied.split()
        for name in names:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, folder / target)
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    pytest.importorskip("setuptools", "64", reason="building offline needs setuptools >= 64 in this environment")
    target, earlier = tmp_path_factory.mktemp("wheel"), source / "build" / "lib" / "bert_fused_plugin" / "models"
    earlier.mkdir(parents=True)
    (earlier / "removed.py").touch()  # as a build of an earlier version leaves it
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", target, source, cwd=target)
    (built,) = target.glob("bert_fused_plugin-*.whl")
    return built


@pytest.fixture
def python(tmp_path):
    """The interpreter of a fresh environment."""
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    return tmp_path / "venv" / "bin" / "python"


def site_packages(python):
    (folder,) = python.parent.parent.glob("lib/python*/site-packages")
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in str(path))


def test_the_wheel_carries_every_module_the_hook_and_the_type_marker(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith("removed.py")]
    modules = {str(path.relative_to(ROOT)) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    modules |= {str(path.relative_to(ROOT)) for path in ROOT.glob("bert_fused_lab/*/templates/*")}
    assert modules <= set(names)
    assert "bert_fused_plugin/py.typed" in names
    assert [name for name in names if name.endswith(".pth")] == [
        f"bert_fused_plugin-1.1.0.data/purelib/{STARTUP_FILE}"  # pip puts it into site-packages
    ]
    assert not [name for name in names if name.startswith(("tests", "examples", "scripts", "benchmarks"))]


def test_the_image_has_the_scripts_that_it_runs(source):
    scripts = re.findall(r"\b(?:scripts|examples)/[\w/]+\.sh", DOCKERFILE)
    assert scripts == ["scripts/setup.sh", "scripts/demo.sh"]
    for script in list(scripts):
        assert os.access(source / script, os.X_OK)
        text = (source / script).read_text(encoding="utf-8")
        scripts += re.findall(r"\$root/((?:scripts|examples)/[\w/]+\.(?:sh|py))", text)
    assert all((source / script).exists() for script in scripts)
    assert run(source / "scripts" / "setup.sh", "--print-torch", cwd=source).startswith("torch==")


@pytest.mark.parametrize("editable", [False, True])
def test_an_install_hooks_in_and_leaves_nothing_behind(source, wheel, python, tmp_path, editable):
    if editable:
        build = f"from setuptools import build_meta; build_meta.build_editable({str(tmp_path)!r})"  # as pip does
        run(sys.executable, "-c", build, cwd=source)
        (wheel,) = tmp_path.glob("bert_fused_plugin-*.whl")
    before = site_packages(python)
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    assert editable or STARTUP_FILE in site_packages(python)
    assert str(source) not in run(python, "-c", "import sys; print(sys.path)", cwd=tmp_path)  # with tests, scripts, ...
    assert run(python, "-c", HOOKED, cwd=tmp_path).strip() == "1"
    found = run(python, "-c", "import fairseq_compat as f; print(f.__file__)", cwd=tmp_path)
    assert (str(source) in found) == editable
    run(python, "-m", "pip", "uninstall", "-y", "bert_fused_plugin", cwd=tmp_path)
    assert site_packages(python) == before
    assert run(python, "-c", HOOKED, cwd=tmp_path).strip() == "0"


def test_set_up_names_what_is_wrong_with_python_and_folder(tmp_path):
    def fails(**environment):
        env = {**os.environ, **environment}
        done = subprocess.run([ROOT / "scripts" / "setup.sh"], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 1
        return done.stderr

    assert "PYTHON=no-such-python: no such command" in fails(PYTHON="no-such-python", VENV=str(tmp_path / "v"))
    old = tmp_path / "python3.7"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.7.9\n')
    old.chmod(0o755)
    assert "is Python 3.7.9; 3.9 to 3.14 is needed" in fails(PYTHON=str(old), VENV=str(tmp_path / "v"))
    (tmp_path / "mine").mkdir()
    assert "exists and is no virtual environment" in fails(VENV=str(tmp_path / "mine"))
