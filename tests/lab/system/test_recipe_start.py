"""bert-fused-recipe --start: a pre-trained translation model as it is, fine-tuned, and fine-tuned with BERT."""

import json
import random

import pytest
from fairseq.data import Dictionary
from fork_server import run_forked
from sentencepiece import SentencePieceProcessor
from transformers import AutoModelForSeq2SeqLM
from translation_models import MODELS, WORDS

from bert_fused_lab.importing import import_bert_nmt
from bert_fused_lab.recipe import back_translation, command, distill, start, steps
from bert_fused_lab.recipe.running import run_command
from bert_fused_lab.recipe.subwords import learned
from bert_fused_plugin.errors import BertFusedError


@pytest.fixture
def place(tmp_path):
    """A folder with the model ``nllb`` and the text ``data``."""
    (tmp_path / "nllb").mkdir()
    make, options, _ = MODELS["NLLB"]
    make(tmp_path / "nllb", **options)
    (tmp_path / "data").mkdir()
    draw = random.Random(1)
    for language in ("en", "fr"):
        text = "".join(" ".join(draw.choices(WORDS[:11], k=draw.randint(3, 9))) + "\n" for _ in range(300))
        (tmp_path / "data" / f"train.{language}").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_downloaded_model_is_scored_fine_tuned_fused_and_exported(place, bert_dir):
    flags = "--cpu --max-tokens 300 --validate-interval-updates 2 --save-interval-updates 2"
    given = ["--start", "nllb", "--bert", bert_dir, "--more", 2, "--deploy", "control", "--train-flags", flags]
    steps = ["prepare", "estimate", "transformer", "control", "bert_fused", "deploy", "compare"]
    done = run_forked("bert-fused-recipe", "en", "fr", "data", "--out=out", *given, *steps, cwd=place, timeout=800)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "\ntransformer: out/start/checkpoint.pt, as it was downloaded\n" in done.stdout
    assert "of the control 3e-05" in done.stdout
    assert " (control " in done.stdout  # the first of the expected times: the transformer was downloaded
    out = place / "out"
    for language in ("en", "fr"):
        assert (out / "data-bin" / f"dict.{language}.txt").read_bytes() == (
            out / "start" / f"dict.{language}.txt"
        ).read_bytes()
    assert (out / "text" / "train.en").read_text(encoding="utf-8").startswith("eng_Latn ")
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert [run["name"] for run in report["runs"]] == ["control", "as_downloaded", "bert_fused"]
    assert "fra_Latn" not in (out / "evidence" / "test" / "as_downloaded.1" / "on.txt").read_text(encoding="utf-8")
    assert "eng_Latn" not in (out / "evidence" / "test" / "source.txt").read_text(encoding="utf-8")
    deployed = AutoModelForSeq2SeqLM.from_pretrained(out / "deploy").state_dict()
    original = AutoModelForSeq2SeqLM.from_pretrained(place / "nllb").state_dict()
    assert deployed.keys() == original.keys()
    changed = [(deployed[name] - original[name]).abs().max().item() for name in deployed]
    assert 0 < max(changed) < 1e-3  # two updates at a rate of 3e-5, in its warm-up


def test_of_a_large_vocabulary_the_text_needs_a_part_and_an_import_is_taken_as_it_is(place, monkeypatch):
    calls = []
    args = command.parse_args(
        ["en", "fr", str(place / "data"), "--out", str(place / "out"), "--start", str(place / "nllb")]
    )
    start.import_model(args, args.data, calls.append)
    monkeypatch.setattr(start, "_MANY", 100)
    start.import_model(args, args.data, calls.append)
    assert [words[:2] for words in calls] == [["bert-fused-import", "hf"]] * 2
    text = [str(args.data / f"train.{language}") for language in ("en", "fr")]
    assert [words[words.index("-t") + 2 :] for words in calls] == [[], ["--vocabulary-of", *text]]
    import_bert_nmt.main(["hf", *map(str, (place / "nllb", place / "imported")), "-s", "en", "-t", "fr"])
    (place / "out").mkdir()
    args.start = str(place / "imported")
    start.import_model(args, args.data, calls.append)
    assert start.imported_settings(place / "out" / "start")["tags"] == ["eng_Latn", "fra_Latn"]
    assert len(calls) == 2
    for args.source, args.target in (("en", "de"), ("fr", "en")):
        with pytest.raises(BertFusedError, match=f"is of other languages; import it with -s {args.source} -t"):
            start.import_model(args, args.data, calls.append)


def test_monolingual_text_has_the_tags_of_the_model(place, bert_dir):
    draw, out, words = random.Random(1), place / "out", {"en": WORDS[:7], "fr": WORDS[5:11]}
    text = {language: [" ".join(draw.choices(words[language], k=5)) for _ in range(90)] for language in words}
    for language, lines in text.items():
        (place / "data" / f"train.{language}").write_text("".join(f"{line}\n" for line in lines[:60]), encoding="utf-8")
    mono = [*text["fr"][60:], text["en"][0], ""]
    (place / "data" / "mono.fr").write_text("".join(f"{line}\n" for line in mono), encoding="utf-8")
    given = ["--start", str(place / "nllb"), "--bert", str(bert_dir), "--mono", str(place / "data"), "--out", str(out)]
    args = command.parse_args(["en", "fr", str(place / "data"), *given, "prepare"])
    steps.Recipe(args, run_command).do(args.steps)
    given = [*distill.read(out / "mono" / "text" / "train.fr")]
    assert 20 < len(given) <= 30
    assert {line.split()[0] for line in given} == {"fra_Latn"}

    lines = [*[*distill.read(out / "text" / "train.en")][: len(given) - 2], f"eng_Latn {given[0].split(' ', 1)[1]}"]
    (out / "mono" / "translated").mkdir()
    for language, side in {"en": [*lines, lines[0].split(" ", 1)[1]], "fr": given}.items():
        text = "".join(f"{line}\n" for line in side)
        (out / "mono" / "translated" / f"train.{language}").write_text(text, encoding="utf-8")
    assert steps._prefix(start.tags_of_start(args)) == ["--prefix-size", "1"]
    back_translation.binarise_mono(args, run_command, None)
    assert {*distill.read(out / "mono" / "text" / "train.en")} == {"eng_Latn"}  # which that prefix is read from
    back_translation.write_synthetic(args, out / "text", None)
    sources, targets = ([*distill.read(out / "mono" / f"synthetic.{language}")] for language in ("en", "fr"))
    assert len(sources) == len(targets) == len(given) - 1  # without the French source
    assert {line.split()[0] for line in targets} == {"fra_Latn"}
    assert {line.startswith("<s> eng_Latn \u2581") for line in sources} == {True}


@pytest.mark.timeout(300)
def test_a_downloaded_model_of_the_other_direction_translates_back_in_its_own_subwords(place, bert_dir, monkeypatch):
    data, out = place / "data", place / "out"
    draw = random.Random(3)
    mono = {" ".join(draw.choices(WORDS[:11], k=draw.randint(1, 9))) for _ in range(50)}
    (data / "mono.fr").write_text("".join(f"{line}\n" for line in sorted(mono)), encoding="utf-8")
    with (data / "train.en").open("a", encoding="utf-8") as file:  # letters that the random model writes
        file.write("".join(f"{letter}\n" for letter in sorted(set("".join(WORDS[11:])))))
    with (data / "train.fr").open("a", encoding="utf-8") as file:
        file.write("".join("the\n" for letter in sorted(set("".join(WORDS[11:])))))
    monkeypatch.setattr(back_translation, "leaning_between", lambda *paths: lambda line: -1)
    monkeypatch.setattr(back_translation, "fault", lambda source, target, leaning: "" if source else "empty")

    given = ["--bert", bert_dir, "--symbols", "200", "--mono", data, "--reverse", place / "nllb", "--out", out]
    steps = ["prepare", "reverse", "back_translate", "--train-flags=--cpu", "--out", out]
    command.main(["en", "fr", *map(str, [data, *given, *steps])])
    raw, pieces = ([*distill.read(out / "mono" / "text" / f"{name}.fr")] for name in ("raw", "for-reverse"))
    assert 20 < len(raw) == len({*raw} & mono)
    assert [line.replace(" ", "").replace("\u2581", " ") for line in pieces] == [f"fra_Latn {line}" for line in raw]
    rows = [row.split("\t") for row in distill.read(out / "mono" / "translated" / "parts" / "0-of-1")]
    assert {row[1].split()[0] for row in rows} == {"eng_Latn"}  # which is forced
    split = learned("sentencepiece", out / "text")
    [imported] = out.glob("reverse-*")
    decode = SentencePieceProcessor(model_file=str(imported / "target.spm")).decode
    known = Dictionary.load(str(out / "data-bin" / "dict.en.txt"))
    expected = {int(row[0]): split(decode(row[1].split()[1:])) for row in rows if "<unk>" not in row[1]}
    assert any(word not in known for line in expected.values() for word in line.split())  # letters of other scripts
    expected = {number: line for number, line in expected.items() if all(word in known for word in line.split())}
    sources, targets = ([*distill.read(out / "mono" / f"synthetic.{language}")] for language in ("en", "fr"))
    assert sources == [f"<s> {expected[number]}" for number in sorted(expected) if expected[number]]
    assert targets == [split(raw[number]) for number in sorted(expected) if expected[number]]
    assert len(sources) > 5
    with pytest.raises(BertFusedError, match="was made with other settings"):  # the translations would be lost
        command.main(["en", "fr", *map(str, [data, *given, "--out", out]), "--subwords", "subword-nmt", "prepare"])
    assert (out / "mono" / "data-bin").exists()


def test_what_the_model_decides_is_refused(tmp_path):
    out = tmp_path / "out"
    (out / "start").mkdir(parents=True)
    words = ["en", "fr", str(tmp_path), "scratch", "control", "--size", "tiny", "--symbols", "9", "--student", "6+2"]
    words += [f"--out={out}", f"--start={out}/start", "--teacher=transformer", "--baseline=as_downloaded"]
    args = command.parse_args(words)
    assert args.baseline == "transformer"  # whose name in the report it is
    errors = start.start_errors(args)
    assert [error.split()[0] for error in errors] == [
        "--symbols", "--size", "scratch", "--teacher,", "--start", "--student", "--start"
    ]  # fmt: skip
    assert errors[-1].startswith(f"--start {out}/start cannot be loaded: ")
    (out / "data-bin").mkdir()  # made from the import
    assert len(start.start_errors(args)) == len(errors) - 1


def test_a_directory_of_the_user_stays_as_it_is(dry):
    (dry.path / "imported").mkdir()
    (dry.path / "imported" / "imported.json").write_text('{"flags": [], "tags": ["", ""]}')
    (dry.path / "imported" / "checkpoint.pt").touch()
    out = dry.prepared("own_data", start="imported")
    (out / "start").symlink_to(dry.path / "imported")
    (out / "data-bin" / "dict.en.txt").touch()
    dry.run("own_data", "bert_fused", start="imported")
    assert sorted(path.name for path in (dry.path / "imported").iterdir()) == ["checkpoint.pt", "imported.json"]
    (out / "deploy").mkdir()  # of an earlier call
    dry.fails = "bert-fused-export"
    dry.refused("own_data", "control", "deploy", start="imported", deploy="control")
    assert (out / "deploy").exists()
    (dry.path / "imported" / "imported.json").unlink()
    said = dry.refused("own_data", "control", start="imported")
    assert (
        said == "there is no own_data-out/start/imported.json of an imported model; put it back, or give another --out"
    )
