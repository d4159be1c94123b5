"""The tests of fairseq that fail with the shim, and why: a plugin of pytest for scripts/upstream_tests.sh."""

from importlib.util import find_spec
from pathlib import Path

import pytest

NOT_RUN = (
    "gpu",  # wants a GPU
    "speech",  # wants packages for speech
    "speech_recognition",
)
EXCEPTIONS = {  # the beginning of a test's name: the reason
    "tests/test_binaries.py::TestLanguageModeling::test_transformer_xl_bptt_lm": "transformers has dropped the model",
    "tests/test_hf_hub.py::TestHuggingFaceHub::test_hf_fastspeech2": "the network is out of reach, as in other tests",
}
OPTIONAL = {  # the same: the module that is wanted; without torch at hand fairseq's setup.py does not build libnat
    "tests/test_binaries.py::TestTranslation::test_insertion_transformer": "fairseq.libnat",
    "tests/test_multihead_attention.py::test_mask_for_xformers": "xformers",
    "tests/test_multihead_attention.py::test_xformers_single_forward_parity": "xformers",
}
EXCEPTIONS.update((name, f"{module} is missing") for name, module in OPTIONAL.items() if find_spec(module) is None)
if find_spec("fairseq.tasks.span_masked_lm") is not None:  # fairseq's main
    for name in ("legacy_masked_lm", "pretrained_masked_lm_for_translation"):
        reason = "MaskedLMDictionary does not take an argument of Dictionary.load"
        EXCEPTIONS[f"tests/test_binaries.py::TestMaskedLanguageModel::test_{name}"] = reason
# a gradient that is not finite in some runs, and then fairseq's search for its origin ends in torch's hooks
UNSTEADY = "tests/test_binaries.py::TestTranslation::test_multilingual_translation_latent_depth"


def pytest_ignore_collect(collection_path: Path) -> "bool | None":
    """Leave out what is not run."""
    return True if collection_path.parent.name == "tests" and collection_path.name in NOT_RUN else None


def pytest_collection_modifyitems(items: "list[pytest.Item]") -> None:
    """Expect the exceptions to fail."""
    for item in items:
        for name, reason in EXCEPTIONS.items():
            if item.nodeid.startswith(name):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        if item.nodeid == UNSTEADY:
            item.add_marker(pytest.mark.xfail(reason="not finite in some runs"))
