"""scripts/setup.sh asks pip for the fairseq that FAIRSEQ names, remembers it, and lets pip never keep another one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documentation import ROOT

PIP = """
import os, sys
with open({log!r}, "a") as log:
    print(*sys.argv[1:], *os.environ.get("CUDA_HOME", "").split(), file=log)
script = os.path.join(sys.prefix, "bin", "fairseq-train")
open(script, "w").close()
if sys.argv[1] == "wheel":
    os.mkdir(sys.argv[3])
    open(sys.argv[3] + "/fairseq-0.whl", "w").close()
os.chmod(script, 0o755)
"""


class SetUp:
    """Runs the script with a pip that writes down its arguments and installs nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "pip.log"
        (folder / "modules" / "pip").mkdir(parents=True)
        (folder / "modules" / "pip" / "__main__.py").write_text(PIP.format(log=str(self.log)))
        for name in ("fairseq", "fairseq_compat", "bert_fused_plugin"):  # what the script imports at the end
            (folder / "modules" / f"{name}.py").touch()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)

    def __call__(self, **settings: str):
        """Return the commands that pip was given."""
        self.log.write_text("")
        env = {k: v for k, v in os.environ.items() if k not in ("TORCH", "FAIRSEQ", "PIP_CONSTRAINT")}
        env.update(PYTHONPATH=str(self.folder / "modules"), VENV=str(self.folder / "venv"), PYTHON=sys.executable)
        script = ROOT / "scripts" / "setup.sh"
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run([script], env={**env, **settings}, cwd=self.folder, **both, text=True)
        self.output = done.stdout
        assert done.returncode == 0, done.stdout
        lines = self.log.read_text().splitlines()
        return [line for line in lines if "--version" not in line and "pip>=" not in line]


@pytest.fixture
def set_up(tmp_path):
    return SetUp(tmp_path)


EXTRAS = f"install -e {ROOT}[dev]"


def test_fairseq_comes_from_the_package_index_and_is_built_first(set_up, tmp_path):
    wheel, torch, fairseq, extras = set_up()
    wheels = tmp_path / "venv" / "wheels"
    assert wheel == f"wheel --wheel-dir {wheels} --no-deps fairseq==0.12.2"
    assert torch == f"install torch=={torch.split('==')[1].split()[0]} -e {ROOT}"
    assert fairseq == f"install --no-deps {wheels}/fairseq-0.whl"
    assert extras == EXTRAS
    assert set_up() == []


def test_an_extra_that_cannot_be_installed_is_a_warning(set_up, tmp_path):
    pip = tmp_path / "modules" / "pip" / "__main__.py"
    pip.write_text(
        f"import sys\nif set(sys.argv) & {{'{ROOT}[dev]', '{ROOT}[japanese]'}}: sys.exit(1)\n{pip.read_text()}"
    )
    assert [line.split("[")[1] for line in set_up()[3:]] == ["deploy]", "plots]", "sparse]"]
    warnings = [line for line in set_up.output.splitlines() if "warning" in line]
    assert ["the extra dev" in warnings[0], "the extra japanese" in warnings[1], len(warnings)] == [True, True, 2]


def test_a_checkout_or_an_address_is_built_with_the_torch_of_the_environment(set_up, tmp_path):
    (tmp_path / "checkout").mkdir()
    address = "git+https://example.org/fairseq@main"
    for given, named in (("checkout", tmp_path / "checkout"), (address, address)):
        removal, torch, fairseq, _ = set_up(FAIRSEQ=given, CUDA_HOME="/usr/local/cuda")  # of no part in the build
        assert removal.startswith("uninstall -y fairseq")
        assert " scikit-learn wheel" in torch
        assert fairseq == f"install --no-build-isolation --no-deps {named}"


def test_without_a_compiler_it_says_what_to_install_and_takes_a_wheel(set_up, tmp_path):
    set_up(CXX="no-such-compiler", CC="sh")
    assert "warning: what compiles fairseq is missing: no-such-compiler; install it (apt install" in set_up.output
    (tmp_path / "fairseq.whl").touch()
    assert set_up(CXX="no-such-compiler", FAIRSEQ="fairseq.whl")[-2] == f"install --no-deps {tmp_path / 'fairseq.whl'}"
    assert "warning" not in set_up.output


def test_a_choice_is_remembered_and_another_one_replaces_what_is_installed(set_up, tmp_path):
    (tmp_path / "checkout").mkdir()
    assert set_up(FAIRSEQ="checkout", TORCH="torch==2.8.0")[1] == "uninstall -y torch"
    assert set_up() == []
    assert set_up(FAIRSEQ=str(tmp_path / "checkout")) == []
    (tmp_path / "venv" / "setup-stamp").unlink()  # as after a change of setup.py
    *_, torch, fairseq, _ = set_up()
    assert torch.startswith("install torch==2.8.0 ")
    assert fairseq.endswith(f" {tmp_path / 'checkout'}")
    removal, fairseq, *_ = set_up(FAIRSEQ="fairseq==0.12.2")
    assert removal == "uninstall -y fairseq"
    assert fairseq.endswith(" --no-deps fairseq==0.12.2")


def test_another_commit_of_the_checkout_and_the_tested_versions_are_installed(set_up, tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a", "-C", str(tmp_path / "checkout")]
    for number in (1, 2):
        (tmp_path / "checkout").mkdir(exist_ok=True)
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(number)], check=True)
        assert set_up(FAIRSEQ="checkout")[0] == "uninstall -y fairseq"
        assert set_up() == []
    assert len(set_up(PIP_CONSTRAINT="constraints.txt")) == 4
    assert set_up(PIP_CONSTRAINT="constraints.txt") == set_up() == []


@pytest.mark.parametrize("without", ["pip", "its Python"])
def test_an_environment_that_was_made_by_hand_is_never_made_anew(set_up, tmp_path, without):
    (tmp_path / "venv" / "mine").touch()
    if without == "pip":
        (tmp_path / "modules" / "pip" / "__main__.py").write_text("raise SystemExit(1)")
    else:
        set_up()  # which uses it as it is
        shutil.copy(sys.executable, tmp_path / "python")
    with pytest.raises(AssertionError):
        set_up(PYTHON=str(tmp_path / "python") if without != "pip" else sys.executable)
    assert "was made by hand, and not with " in set_up.output
    assert (tmp_path / "venv" / "mine").exists()
