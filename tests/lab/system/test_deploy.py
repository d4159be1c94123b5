"""From a trained transformer to CTranslate2: the steps distill and deploy."""

import json
import os
import random
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest
import sacrebleu
from documentation import blocks
from helpers import WORDS
from translation_models import MODELS, lines
from workspace import ROOT, TRANSFORMER, Workspace, hypotheses

from bert_fused_lab.exporting import export_model, measure_ctranslate2, to_ctranslate2
from bert_fused_lab.importing import import_bert_nmt
from bert_fused_lab.importing.check_import import Both
from bert_fused_lab.recipe.subwords import learn, learned, split_file
from bert_fused_plugin.data import moses_text
from bert_fused_plugin.errors import BertFusedError

pytestmark = pytest.mark.timeout(600)  # it trains
pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; `pip install ctranslate2` where it has wheels")

SIZES = (
    "--encoder-layers 2 --decoder-layers 1 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128 "
    "--encoder-attention-heads 4 --decoder-attention-heads 4 --share-all-embeddings --max-tokens 600 "
    "--encoder-normalize-before --decoder-normalize-before "  # as the students of the recipes
    "--lr 0.003 --lr-scheduler inverse_sqrt --warmup-updates 100 --max-update 400 --max-epoch 0 --log-interval 100"
).split()


@pytest.fixture(scope="module")
def repeats(tmp_path_factory, bert_dir):
    """A workspace with a transformer that repeats its input, and ``deploy``, what becomes of it."""
    path = tmp_path_factory.mktemp("repeats")
    rng, text = random.Random(3), path / "text"
    text.mkdir()
    for split, size in (("train", 2000), ("valid", 20), ("test", 100)):
        lines = "".join(" ".join(rng.choices(WORDS[:15], k=rng.randint(1, 9))) + "\n" for _ in range(size))
        for lang in ("en", "de"):
            (path / f"{split}.{lang}").write_text(lines, encoding="utf-8")
    learn("sentencepiece", [path / "train.en"], 60, text)
    split_line = learned("sentencepiece", text)
    for file in path.glob("*.??"):
        split_file(file, text / file.name, split_line)
    workspace = Workspace(path, bert_dir)
    workspace.run(
        "fairseq-preprocess", "-s", "en", "-t", "de", "--joined-dictionary", "--trainpref", text / "train",
        "--validpref", text / "valid", "--testpref", text / "test", "--destdir", workspace.data,
    )  # fmt: skip
    workspace.run("fairseq-train", workspace.data, *TRANSFORMER, *SIZES, "--save-dir", workspace.save_dir)
    converted = convert(workspace, workspace.checkpoint, "deploy")
    assert "in two precisions: float32" in converted.stdout
    return workspace


def convert(workspace, checkpoint, folder, *flags, **options):
    script = to_ctranslate2.__file__
    places = [workspace.data, workspace.path / "text", workspace.path / folder, "en", "de"]
    return workspace.run("python", script, checkpoint, *places, "--max-len-b", "20", *flags, **options)


def translated(folder, text, *flags):
    """Translate *text* by the program of the directory, without fairseq, torch and this repository."""
    without = "import runpy, sys; sys.modules.update(torch=None, fairseq=None, bert_fused_plugin=None); del sys.argv[0]"
    run = f"{without}; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", run, str(folder / "translate.py"), *flags],
        input=text, capture_output=True, encoding="utf-8", errors="surrogateescape", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_ctranslate2_translates_as_fairseq_does(repeats):
    text = (repeats.path / "test.en").read_text(encoding="utf-8")
    output = repeats.generate("--beam", "5", "--max-len-b", "20", "--remove-bpe", "sentencepiece", task="translation")
    by_fairseq = [tokens for _, (_, tokens) in sorted(hypotheses(output.stdout).items())]
    by_float32, by_int8 = (translated(repeats.path / "deploy", text, *flags) for flags in ([], ["--int8"]))
    references = [text.splitlines()]
    scores = [sacrebleu.corpus_bleu(lines, references).score for lines in (by_fairseq, by_float32, by_int8)]
    assert scores[0] > 90  # it has learned to repeat
    assert sum(a == b for a, b in zip(by_fairseq, by_float32)) >= 98
    assert scores[2] >= scores[0] - 5  # without AVX-512, int8 rounds more
    assert len(by_int8) == 100


def test_lines_of_any_kind_are_translated(repeats):
    # a byte order mark, a byte that is no UTF-8, and no line feed at the end
    lines = ["\ufeffthe man sees", "", "ß漢字\udce9", "the dog " * 2000, "the\tman sees\r", "the man sees"]
    first, empty, _, long, dos, last = translated(repeats.path / "deploy", "\n".join(lines))
    assert first == dos == last == "the man sees"
    assert empty == ""
    assert "dog" in long


def test_text_is_split_and_joined_as_the_training_text_was(repeats, codes, tmp_path):
    folder = tmp_path / "moses"
    shutil.copytree(repeats.path / "deploy", folder)
    (folder / "sentencepiece.model").unlink()
    shutil.copyfile(codes, folder / "codes")
    shutil.copyfile(moses_text.__file__, folder / "moses_text.py")
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    assert settings["lower"]
    assert not settings["moses"]
    settings.update(moses=True, split_hyphens=True, escape=True, has_spaces=True)
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    translator = runpy.run_path(str(folder / "translate.py"))["Translator"]()
    pieces = translator.split("The big-house, 'here'")
    assert translator.join(pieces) == "the big-house, 'here'"
    assert translator.join(pieces, tokenised=True) == "the big @-@ house , &apos; here&apos;"
    assert translator.join("geht &apos; s".split()) == "geht's"  # as in the report
    translator._settings["escape"] = False
    assert translator.join(translator.split("'here'"), tokenised=True) == "'here'"
    translator._settings["moses"] = False
    assert translator.split("the\thouse") == translator.split("the house")


def test_bytes_are_joined_to_letters(repeats):
    translator = runpy.run_path(str(repeats.path / "deploy" / "translate.py"))["Translator"]()
    assert translator.join(["▁a", "<0xC3>", "<0x9F>", "<0xFF>", "▁b"]) == "aß\ufffd b"


def test_text_of_moses_is_noticed(tmp_path, monkeypatch):
    def convert(args, new):
        for name in to_ctranslate2.PRECISIONS:
            (new / name).mkdir()
            (new / name / "model.bin").touch()
        return Namespace(max_source_positions=9, max_target_positions=9)

    monkeypatch.setattr(to_ctranslate2, "convert", convert)
    (tmp_path / "codes").touch()
    places = [str(tmp_path)] * 2 + [f"{tmp_path}/out"]
    with pytest.raises(BertFusedError, match=r"has no dict\.en\.txt; give the data-bin of the training"):
        to_ctranslate2.main(to_ctranslate2.parse_args(["x.pt", *places, "en", "th"]))
    (tmp_path / "dict.en.txt").write_text("&apos;s 1\n", encoding="utf-8")
    to_ctranslate2.main(to_ctranslate2.parse_args(["x.pt", *places, "en", "th"]))
    assert (tmp_path / "out" / "moses_text.py").exists()
    settings = json.loads((tmp_path / "out" / "settings.json").read_text(encoding="utf-8"))
    assert (settings["moses"], settings["has_spaces"]) == (True, False)


def test_what_cannot_be_converted_is_said(repeats, workspace, tmp_path):
    earlier = shutil.copytree(repeats.path / "deploy", repeats.path / "fused")
    done = convert(repeats, workspace.checkpoint, "fused", ok=False)
    assert done.returncode == 1
    assert f"cannot be converted with {repeats.data}; give a plain transformer, such as a student, and" in done.stderr
    for lang in ("en", "de"):
        (tmp_path / f"dict.{lang}.txt").write_text("the 1\n", encoding="utf-8")
    other = [repeats.checkpoint, tmp_path, repeats.path / "text", tmp_path / "new", "en", "de"]
    with pytest.raises(BertFusedError, match=r"and its data-bin\n(.|\n)*size mismatch"):
        to_ctranslate2.main(to_ctranslate2.parse_args(list(map(str, other))))
    assert sorted(earlier.iterdir()) == sorted(earlier / file.name for file in (repeats.path / "deploy").iterdir())


def test_a_directory_of_other_things_is_not_replaced(repeats):
    done = convert(repeats, repeats.checkpoint, "text", ok=False)
    assert done.returncode == 1
    assert "text holds other things than a converted model" in done.stderr
    assert (repeats.path / "text" / "sentencepiece.model").exists()


def test_a_test_set_is_measured(repeats):
    done = repeats.run(
        "python", measure_ctranslate2.__file__, repeats.path / "deploy", repeats.path / "text" / "test.en"
    )
    assert re.search(r"^ctranslate2_int8: [\d,.]+ sentences a second on one core, \d\.\d MB$", done.stdout, re.M)
    lines = (repeats.path / "deploy.test.float32").read_text(encoding="utf-8").splitlines()
    assert lines == translated(repeats.path / "deploy", (repeats.path / "test.en").read_text(encoding="utf-8"))


def test_after_an_interrupt_no_further_part_is_distilled(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\n\nfrom bert_fused_lab.recipe import distill\n\n\n"
        "def translate(part, command):\n    time.sleep(1)\n    part.touch()\n\n\n"
        "def main(out):\n    distill.translate = translate\n"
        "    parts = [out / str(number) for number in range(200)]\n"
        "    distill.translate_all(parts, out.with_name('log'), ['--path', __file__])\n"
    )
    (tmp_path / "run.py").write_text(
        "import pathlib, signal, slow\n\nif __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # these tests may run where it is ignored
        "    slow.main(pathlib.Path('parts'))\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    process = subprocess.Popen([sys.executable, "run.py"], cwd=tmp_path, env=env, start_new_session=True)
    while not (tmp_path / "parts").is_dir() or not any((tmp_path / "parts").iterdir()):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) != 0
    assert len(list((tmp_path / "parts").iterdir())) < 100


def test_the_page_shows_how_a_model_exported_for_transformers_runs_on_ctranslate2(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    make, options, languages = MODELS["NLLB"]
    for folder in ("model", "own_data-out"):
        (tmp_path / folder).mkdir()
    make(tmp_path / "model", decoder_attention_heads=4, **options)  # CTranslate2 wants as many as the encoder has
    import_bert_nmt.main(["hf", "model", "imported", *languages])
    export_model.main(["hf", "imported/checkpoint.pt", "own_data-out/deploy"])
    converter = Path(sys.executable).with_name("ct2-transformers-converter")
    model, output = "own_data-out/deploy", "own_data-out/deploy-int8"
    subprocess.run([converter, "--model", model, "--output_dir", output], check=True, timeout=200)  # without rounding
    [translate] = (block.code for block in blocks("docs/deploy.md") if output in block.code)
    both = Both("model", "imported")
    text = lines(30, 7)
    expected = {
        line: both.pieces[1]
        .decode([symbol for symbol in theirs[:-1] if not re.fullmatch(r"\w{3}_\w{4}", symbol)])
        .strip()
        for line, (theirs, _) in zip(text, both.translations(text, length=30))
        if theirs[-1] == "</s>"  # at the limit, only fairseq ends a translation
    }
    assert len(expected) > 20
    capfd.readouterr()
    for line in expected:
        exec(translate.replace("A sentence.", line))
    assert capfd.readouterr().out.splitlines() == list(expected.values())
