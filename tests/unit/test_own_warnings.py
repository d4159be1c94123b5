"""A warning that one of our modules causes fails the test that meets it (pyproject.toml: filterwarnings)."""

import warnings

import pytest


def warn(module):
    warnings.warn_explicit("look", DeprecationWarning, "file.py", 1, module=module)


@pytest.mark.parametrize("module", ["bert_fused_plugin", "bert_fused_plugin.data.collate", "fairseq_compat.patches"])
def test_a_warning_of_ours_is_an_error(module):
    with pytest.raises(DeprecationWarning, match="look"):
        warn(module)


@pytest.mark.filterwarnings("ignore:look")
def test_a_test_may_ignore_what_it_expects():
    warn("bert_fused_plugin")


def test_a_warning_of_others_stays_a_warning(recwarn):
    warn("fairseq.bert_fused_plugin")
    assert [str(warning.message) for warning in recwarn] == ["look"]
