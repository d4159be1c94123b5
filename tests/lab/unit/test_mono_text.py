"""Monolingual text: what is translated back, and which of the translations training sees."""

from argparse import Namespace

import pytest
from fairseq.data import Dictionary
from helpers import LINES, encode
from transformers import AutoTokenizer

from bert_fused_lab.recipe import back_translation, distill
from bert_fused_lab.recipe.back_translation import TAG, fault, leaning_between, prepare_mono
from bert_fused_lab.recipe.subwords import learn, learned
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import BertFusedError

PAIRS = [("a dog runs", "ein Hund rennt"), ("a house", "ein Haus"), ("the man sees Tom", "der Mann sieht Tom")]


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


@pytest.fixture
def leaning(tmp_path):
    for number, name in enumerate(("en", "de")):
        write(tmp_path / f"train.{name}", [pair[number] for pair in PAIRS])
    return leaning_between(tmp_path / "train.en", tmp_path / "train.de")


def test_only_what_may_be_a_translation_is_learned(leaning):
    good, long = [("the dog sees a house", "der Hund sieht ein Haus"), *PAIRS], "a dog runs a dog runs"
    bad = {
        "empty or with unknown symbols": [("", "ein Hund"), ("a <unk>", "ein Hund"), ("a", "")],
        "copied": [("Tom", "Tom"), ("ein Haus", "ein Haus")],
        "too long or too short": [(long, "ein"), ("a", "ein Hund rennt ein"), ("a " * 26, "ein " * 10)],
        "in another language": [("Haus ein", "ein Haus"), ("Tom", "ein Tom")],
    }
    assert {fault(*pair, leaning) for pair in [*good, ("a " * 25, "ein " * 10)]} == {""}
    for reason, pairs in bad.items():
        assert [fault(*pair, leaning) for pair in pairs] == [reason] * len(pairs)


def test_a_line_leans_to_the_language_that_has_its_words_more_often(leaning):
    assert leaning("a dog") > 0 > leaning("ein Hund")
    assert leaning("Tom") == leaning("unseen") == 0
    assert leaning("a Hund a") == pytest.approx(leaning("a Hund") + leaning("a"))


def test_bert_does_not_see_the_tag_which_every_dictionary_has(dictionary, bert_dir):
    bridge = DictionaryBridge(dictionary, AutoTokenizer.from_pretrained(bert_dir), max_tokens=32)
    tagged = encode(dictionary, f"{TAG} {LINES[0]}")
    assert tagged[0] == Dictionary().index(TAG) != dictionary.unk()
    assert bridge.text(tagged) == bridge.text(encode(dictionary, LINES[0])) != ""
    assert bridge.bert_tokens(tagged[None]).tolist() == bridge.bert_tokens(encode(dictionary, LINES[0])[None]).tolist()


@pytest.fixture
def args(tmp_path):
    """Settings of a recipe whose parallel text is prepared."""
    out, text = tmp_path / "out", tmp_path / "out" / "text"
    for side, language in enumerate(("en", "de")):
        write(text / f"train.{language}", [pair[side] for pair in PAIRS])
    for number, name in enumerate(("valid", "test", "test-news")):
        write(text / f"{name}.de", [f"ein  Mann {number} "])
    write(
        out / "data-bin" / "dict.de.txt",
        [f"{word} 1" for word in "ein Hund rennt Haus der Mann sieht Tom 0 1 2 a dog".split()],
    )
    return Namespace(out=out, mono=tmp_path, source="en", target="de", subwords="none", start=None)


def test_only_new_lines_of_the_language_are_translated_back(args, capsys):
    lines = ["\ufeffein  Hund\u00a0sieht\tTom ", "", " ", "ein Hund sieht Tom", "ein Hund rennt", "der\rHund"]
    write(
        args.mono / "mono.de",
        [*lines, *(f"ein Mann {number}" for number in (0, 1, 2)), "ein Hund \u0434", "a dog Tom", "Tom"],
    )
    prepare_mono(args, args.out / "text")
    assert [*distill.read(args.out / "mono" / "text" / "train.de")] == ["ein Hund sieht Tom", "der Hund"]
    said = capsys.readouterr()
    reasons = (
        "2 empty",
        "2 in another language",
        "5 twice or in the parallel text",
        "1 with symbols that the parallel",
    )
    assert f"prepare: 2 of 12 lines of mono.de are translated back; left out: {', '.join(reasons)}" in said.out
    assert "mono.de: 2 of the lines (number 2, 3) are empty; raw text is used without them" in said.err
    assert back_translation.prepared_mono(args).items() >= {"lines": 2, "tokens": 6}.items()
    prepare_mono(args, args.out / "text")
    assert capsys.readouterr().out == ""  # it is done
    other = args.out / "mono" / "text" / "data-bin"  # made of other subwords
    other.mkdir()
    (args.out / "mono" / "text.json").unlink()
    prepare_mono(args, args.out / "text")
    assert not other.exists()
    write(args.mono / "mono.de", ["der Mann"])
    args.bert_text = args.reverse = None
    [error] = back_translation.mono_errors(args)
    assert error.endswith("out/mono was made from another mono.de; remove it, or give another --out")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Où".encode("latin1"), "mono.de: 1 of the lines (number 1) are not UTF-8; convert the file"),
        (
            b"ein <unk> Hund\n",
            "mono.de: 1 of the lines (number 1) have a word that is or ends with <s>, ",
        ),
        (b"", "mono.de is empty; it must hold one sentence a line"),
        (b"ein Hund rennt\n", "mono.de has no line that can be translated back; give other sentences"),
    ],
)
def test_monolingual_text_that_cannot_be_used(args, line, message):
    (args.mono / "mono.de").write_bytes(line)
    with pytest.raises(BertFusedError) as caught:
        prepare_mono(args, args.out / "text")
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", ["sentencepiece", "subword-nmt"])
def test_monolingual_text_is_split_as_the_parallel_text_is(args, kind):
    text, line = args.out / "text", "der Hund sieht ein Haus"
    write(text / "raw" / "train.de", [pair[1] for pair in PAIRS] * 20)
    learn(kind, [text / "raw" / "train.de"], 40, text)
    split = learned(kind, text)
    write(text / "train.de", [split(pair[1]) for pair in PAIRS])
    symbols = {word for pair in PAIRS for word in split(f"{pair[1]} {line}").split()}
    write(args.out / "data-bin" / "dict.de.txt", [f"{word} 1" for word in symbols])
    write(args.mono / "mono.de", [line])
    args.subwords = kind
    prepare_mono(args, text)
    assert [*distill.read(args.out / "mono" / "text" / "train.de")] == [split(line)]


def test_a_part_without_a_batch_is_empty(tmp_path, monkeypatch):
    def no_batch(args):
        open(f"{args[args.index('--results-path') + 1]}/generate-train.txt", "x").close()
        raise ZeroDivisionError  # as fairseq, which computes a speed

    monkeypatch.setattr(distill.options, "parse_args_and_arch", lambda parser, flags: flags)
    monkeypatch.setattr(distill.generate, "main", no_batch)
    distill.translate(tmp_path / "2-of-3", ["data"])
    assert (tmp_path / "2-of-3").read_bytes() == b""
