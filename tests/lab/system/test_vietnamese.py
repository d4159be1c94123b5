"""A Vietnamese user with PhoBERT, whose text is segmented into words: the recipe own_data, and new text afterwards."""

import json
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from documentation import blocks
from fork_server import run_forked
from slow_tokenizers import phobert
from transformers import RobertaConfig, RobertaModel
from workspace import ROOT

WHO = ["con chó:the dog", "con mèo:the cat", "người phụ_nữ:the woman", "ngôi_nhà:the house", "đất_nước:the country"]
DOES = ["nhìn_thấy:sees", "yêu_thích:loves", "giúp_đỡ:helps", "không biết:does not know", "tìm_kiếm:looks for"]
PARTS = product(WHO, DOES, WHO[:2])
PAIRS = [[" ".join(words) for words in zip(*(part.split(":") for part in parts))] for parts in PARTS]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with raw text, the same text segmented, and a PhoBERT whose vocabulary is that of the latter."""
    path = tmp_path_factory.mktemp("vietnamese")
    sides = {
        "raw/train.vi": [source.replace("_", " ") for source, _ in PAIRS],
        "raw/train.en": [target for _, target in PAIRS],
        "segmented/train.vi": [source for source, _ in PAIRS],
        "segmented/train.en": [target for _, target in PAIRS],
    }
    for name, lines in sides.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (path / "files").mkdir()
    tokenizer = phobert(path / "files", sides["segmented/train.vi"])
    tokenizer.save_pretrained(path / "phobert")
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20}
    config = RobertaConfig(vocab_size=len(tokenizer), **sizes, max_position_embeddings=42, pad_token_id=1)
    RobertaModel(config).save_pretrained(path / "phobert")
    return path


def run(path, source, target, data, *steps, **options):
    """Run bert-fused-recipe in a folder."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    return run_forked("bert-fused-recipe", source, target, data, *words, *steps, cwd=path, timeout=600)


def given(place, **more):
    return {"bert": place / "phobert", "symbols": 70, "updates": 2, "more": 1, "train_flags": "--cpu", **more}


def test_the_encoder_is_tried_before_anything_else(place, tmp_path):
    done = run(tmp_path, "vi", "en", place / "raw", "prepare", **given(place, bert=tmp_path / "nowhere"))
    assert done.returncode == 1
    assert "nowhere': no such directory; give an existing one, or a name on the Hugging Face hub" in done.stderr
    assert not (tmp_path / "own_data-out" / "text").exists()


def test_bert_reads_the_validation_sentences_that_are_left_of_many(place, tmp_path):
    for folder in ("raw", "segmented"):
        shutil.copytree(place / folder, tmp_path / folder)
    for file in [*tmp_path.glob("*/train.*")]:
        file.with_stem("valid").write_text(13 * file.read_text(encoding="utf-8"), encoding="utf-8")
    done = run(tmp_path, "vi", "en", "raw", "prepare", **given(place, bert_text="segmented"))
    assert done.returncode == 0, done.stderr
    out = tmp_path / "own_data-out"
    subwords = (out / "valid.vi").read_text(encoding="utf-8").splitlines()
    read = (out / "text" / "bert" / "valid.vi").read_text(encoding="utf-8").splitlines()
    assert len(subwords) == 500
    assert [line.replace("_", " ") for line in read] == [
        line.replace(" ", "").replace("▁", " ")[1:] for line in subwords
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_recipe_reads_segmented_text(place, tmp_path):
    """BERT reads it, and not the transformer."""
    steps = ["prepare", "estimate", "transformer", "bert_fused", "distill", "compare"]
    done = run(tmp_path, "vi", "en", place / "raw", *steps, **given(place, bert_text=place / "segmented"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "phobert (as --bert or the variable BERT says): RobertaModel of " in done.stdout
    assert "PhobertTokenizer (slow, written in Python); at most 40 word pieces" in done.stdout
    out = tmp_path / "own_data-out"
    assert json.loads((out / "report.json").read_text(encoding="utf-8"))["sentences"] == 2
    assert "_" in (out / "text" / "bert" / "train.vi").read_text(encoding="utf-8")
    trained = json.loads((out / "bert_fused" / "recipe.json").read_text(encoding="utf-8"))["settings"]
    assert trained["--bert-text"] == ["OUT/text/bert"]
    command = [sys.executable.replace("python", "fairseq-interactive"), out / "data-bin", "--user-dir"]
    command += [ROOT / "bert_fused_plugin", "--task", "bert_fused_translation", "-s", "vi", "-t", "en", "--cpu"]
    command += ["--path", out / "bert_fused" / "average.pt", "--bpe", "sentencepiece", "--sentencepiece-model"]
    command += [out / "text" / "sentencepiece.model"]
    done = subprocess.run(command, input="con chó\n", capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "which is not given now, so BERT reads other input" in done.stdout + done.stderr
    log = (out / "distilled-bert_fused" / "log").read_text(encoding="utf-8")
    assert "Translated" in log
    assert "which is not given now, so BERT reads other input" not in log
    check_the_page(tmp_path)


def check_the_page(path):
    """New text is translated by the commands of docs/encoders.md, without a warning."""
    [block] = [block for block in blocks("docs/encoders.md") if "new-segmented" in block.code]
    (path / "new.vi").write_text("người phụ nữ yêu thích con chó\n", encoding="utf-8")
    segment = f"import sys; open(sys.argv[2], 'w').write({PAIRS[22][0]!r})\n"  # in the place of VnCoreNLP
    (path / "segment.py").write_text(segment, encoding="utf-8")
    on_cpu = 'fairseq-generate() { command fairseq-generate "$@" --cpu; }\n'
    places = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", on_cpu + block.code],
        capture_output=True, text=True, cwd=path, env={**os.environ, **places},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    [translation] = done.stdout.splitlines()
    assert translation
    assert "\t" not in translation
    assert "which is not given now, so BERT reads other input" not in done.stdout + done.stderr
