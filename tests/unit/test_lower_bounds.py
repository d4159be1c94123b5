"""The constraints of pip: those that give the oldest versions that setup.py allows, and constraints.txt."""

import subprocess
import sys

import lower_bounds as script
import pytest
from documentation import text_of
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def test_each_lower_bound_becomes_the_version():
    required = ["a>=1.2", "b-c_d >= 3.0.12", "e>=1.3,<1.4", "f", "g==2", "h<3"]
    assert script.constraints(required) == ["a==1.2", "b-c_d==3.0.12", "e==1.3"]


def test_the_requirements_are_read_without_running_setup():
    setup = (
        'raise SystemExit\nsetup(name="x", install_requires=["a>=1",  # why\n"b"], extras_require={"dev": ["c>=2"]})'
    )
    assert script.requirements(setup) == ["a>=1", "b"]
    with pytest.raises(ValueError, match="has no install_requires"):
        script.requirements('setup(name="x")')


def test_what_the_package_uses_itself_has_a_lower_bound():
    done = subprocess.run([sys.executable, script.__file__], capture_output=True, text=True, check=True)
    names = {line.partition("==")[0] for line in done.stdout.splitlines()}
    assert {"torch", "transformers", "numpy", "sacrebleu", "safetensors", "hydra-core"} <= names
    assert "fairseq" not in names


def test_the_lower_bounds_are_the_versions_that_were_tested():
    bounds = dict(line.split("==") for line in script.constraints(script.requirements(text_of("setup.py"))))
    lines = text_of("docs/install.md").splitlines()
    [row] = [line for line in lines if line.startswith("|") and "the lower bounds of `setup.py`" in line]
    tested = [cell.strip() for cell in row.split("|")[2:5]]
    assert [f"{bounds[name]}.0" for name in ("torch", "transformers", "numpy")] == tested


def test_the_constraints_file_has_a_version_for_each_requirement_that_setup_allows():
    lines = [line for line in text_of("constraints.txt").splitlines() if not line.startswith("#")]
    versions = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    for required in map(Requirement, script.requirements(text_of("setup.py"))):
        assert versions[canonicalize_name(required.name)] in required.specifier
    assert not [line for line in lines if set("+@/ ") & set(line)], "a version of one machine alone"
