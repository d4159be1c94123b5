"""Fixtures: a tiny BERT made on the spot, dictionaries, tiny models.  Nothing is downloaded."""

import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Only test_gpu.py uses GPUs: -m gpu.  In the other tests, fairseq would start a process for each GPU.
if "PYTEST_XDIST_WORKER" not in os.environ and not {"gpu", "tests/plugin/system/test_gpu.py"} & {*sys.argv}:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.pop("FAIRSEQ_COMPAT_TRUST_CHECKPOINTS", None)

import pytest
import torch
from fairseq.models.transformer import TransformerModel
from helpers import LINES, SIZES, WORDS, dictionary_of, encode, make_model, pad, randomise, task_of, write_bert
from model_cases import Cases
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.models.bert_fused import BertFusedModel, bert_fused

torch.set_num_threads(1)

pytest_plugins = ["workspace"]  # a corpus and models of the real commands

# The rings of scripts/test.sh, by the names of files: of the tests of whole commands those that find most, and those of
# what stands around the package, which are recipes, benchmarks and documentation.
CORE = """
test_commands test_distributed test_fusion_commands test_generation_options
test_interactive test_multilingual test_pinned test_toy_task test_warm_start_commands
"""
AROUND = """
test_back_translation test_benchmark test_constraints test_deploy test_documentation test_estimate test_example_tools
test_hydra test_mono_text test_own_data test_readme test_recipe_restarts test_recipes
test_setup_script test_vietnamese
"""


def pytest_collection_modifyitems(items):
    """Mark the tests of the rings."""
    for item in items:
        if item.path.parent.name == "system":
            item.add_marker("system")
        for name, files in (("core", CORE), ("around", AROUND)):
            if item.path.stem in files.split():
                item.add_marker(name)


@pytest.fixture(scope="session")
def bert_dir(tmp_path_factory):
    """A directory with a random 2-layer BERT of width 12, 4 heads, 32 positions and some 40 word pieces."""
    path = tmp_path_factory.mktemp("tiny-bert")
    write_bert(path)
    return str(path)


@pytest.fixture
def copied(bert_dir, tmp_path):
    """copied(change): a copy of BERT whose weights went through change(weights), and whose config.json has *config*."""

    def copy(change=dict, folder="copied", **config):
        directory = shutil.copytree(bert_dir, tmp_path / folder, dirs_exist_ok=True)
        file, settings = directory / "model.safetensors", directory / "config.json"
        save_file(change(load_file(file)), file, {"format": "pt"})
        settings.write_text(json.dumps({**json.loads(settings.read_text()), **config}))
        return str(directory)

    return copy


@pytest.fixture(scope="session")
def dictionary():
    """A joined dictionary of words and subword-nmt pieces."""
    result = dictionary_of(*WORDS)
    result.finalize(nwords=-1, padding_factor=1)
    return result


@pytest.fixture(scope="session")
def tokenizer(bert_dir):
    return AutoTokenizer.from_pretrained(bert_dir)


@pytest.fixture(scope="session")
def bridge(dictionary, tokenizer):
    return DictionaryBridge(dictionary, tokenizer, max_tokens=32)


@pytest.fixture(scope="session")
def cases(dictionary, bert_dir):
    """Tiny models of all kinds, and a batch for them."""
    return Cases(dictionary, bert_dir)


@pytest.fixture
def source(dictionary):
    """The ids of `LINES`, padded on the left."""
    return pad([encode(dictionary, line) for line in LINES], dictionary.pad(), left=True)


@pytest.fixture
def batch(dictionary, source):
    """The ids of `LINES`, translated by themselves: source tokens, their lengths, and previous output tokens."""
    target = pad([encode(dictionary, line) for line in LINES], dictionary.pad(), left=False)
    return source, source.ne(dictionary.pad()).sum(1), target


@pytest.fixture
def build(bert_dir, dictionary):
    """Build a tiny model: build(encoder_layers=3, bert_drop_net=0.0, ...)."""

    def make(**options):
        return make_model(dictionary, **{"bert_model": bert_dir, **options})

    return make


# --- warm start


@pytest.fixture
def stock(dictionary):
    """Build a stock transformer with random parameters: stock(encoder_layers=3, ...)."""

    def make(target=None, **options):
        args = Namespace(**{**SIZES, **options})
        model = TransformerModel.build_model(args, task_of(dictionary, target))
        randomise(model)
        for parameter in model.parameters():
            parameter.data /= 2  # logits of size 1, so that 1e-6 is more than rounding
        model.flags = args
        return model.eval()

    return make


@pytest.fixture
def save(tmp_path, dictionary):
    """Save *model* as fairseq does, its dictionaries beside it; return the path."""

    def write(model, /, target=None, beside=True, data="nowhere", **state):
        task = {"_name": "translation", "data": data, "source_lang": "en", "target_lang": "de"}
        flags = Namespace(arch="transformer", source_lang=None, **vars(model.flags))
        checkpoint = {"args": None, "cfg": {"model": flags, "task": task}, "model": model.state_dict(), **state}
        torch.save(checkpoint, tmp_path / "stock.pt")
        if beside:
            dictionary.save(str(tmp_path / "dict.en.txt"))
            (target or dictionary).save(str(tmp_path / "dict.de.txt"))
        return str(tmp_path / "stock.pt")

    return write


@pytest.fixture
def start(bert_dir, dictionary):
    """Build a BERT-fused model from a checkpoint: start(path, bert_drop_net=0.0, ...)."""

    def make(path, source=None, target=None, **options):
        args = Namespace(**{**SIZES, "bert_model": bert_dir, "bert_warm_start": path, **options})
        bert_fused(args)
        return BertFusedModel.build_model(args, task_of(source or dictionary, target)).eval()

    return make


# --- all tests


@pytest.fixture
def small_disk(tmp_path):
    """Make a file system of a size (as of mount) and return its folder, which may be made read-only."""
    folder = tmp_path / "disk"

    def mount(size):
        folder.mkdir()
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True
        ).returncode:
            pytest.skip("needs the right to mount a tmpfs")
        return folder

    yield mount
    if os.path.ismount(folder):
        subprocess.run(["umount", "-l", folder], check=True)


class Soak:
    """How much a test does: a little in the suite, much under scripts/soak.sh, which collects the figures."""

    def __init__(self, test: str) -> None:
        self._test, self._file = test, os.environ.get("SOAK")

    def amount(self, short: int, long: int) -> int:
        return long if self._file else short

    def figure(self, text: str) -> None:
        if self._file:
            with open(self._file, "a", encoding="utf-8") as file:
                file.write(json.dumps([self._test, text]) + "\n")


@pytest.fixture
def soak(request):
    return Soak(request.node.name)


@pytest.fixture(autouse=True)
def _same_seed():
    torch.manual_seed(1)
