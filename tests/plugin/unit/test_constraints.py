"""The versions of the requirements: the lower bounds were tested, and constraints.txt has a version for each."""

from importlib import metadata

from documentation import text_of
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REQUIRED = [each for each in map(Requirement, metadata.requires("bert_fused_plugin") or []) if each.marker is None]


def test_the_constraints_file_has_a_version_for_each_requirement_that_setup_allows():
    lines = [line for line in text_of("constraints.txt").splitlines() if not line.startswith("#")]
    versions = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    for required in REQUIRED:
        assert versions[canonicalize_name(required.name)] in required.specifier
    assert not [line for line in lines if set("+@/ ") & set(line)], "a version of one machine alone"
