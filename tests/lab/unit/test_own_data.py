"""What bert-fused-recipe makes of raw text: checks, held-out pairs, subwords, settings of training."""

from argparse import Namespace
from pathlib import Path

import pytest
import sentencepiece
from fairseq import options
from fairseq.data import Dictionary

from bert_fused_lab.recipe import command, raw_text
from bert_fused_lab.recipe.data import _binarise
from bert_fused_lab.recipe.raw_text import make_text
from bert_fused_lab.recipe.running import run_command
from bert_fused_lab.recipe.settings import SIZES, dropout_for, size_for
from bert_fused_lab.recipe.splitting import choose_held_out
from bert_fused_lab.recipe.subwords import count_characters, default_symbols
from bert_fused_lab.recipe.text_checks import Findings, check_for_fairseq, check_split
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.gru_bahdanau.config import GruConfig, gru_config_errors

WORDS = "the a small big old man woman dog house red apple eats sees gives runs".split()


def sentence(number: int) -> str:
    """Return a sentence that no other number has."""
    return " ".join(WORDS[(number // len(WORDS) ** place) % len(WORDS)] for place in range(4))


@pytest.fixture
def data(tmp_path):
    """A directory with 300 pairs of raw training text."""
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "train.en", [f"{sentence(i)}." for i in range(300)])
    write(folder / "train.fr", [f"{sentence(i).upper()} !" for i in range(300)])
    return folder


def write(path, lines):
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))


def read(path):
    return path.read_text(encoding="utf-8").splitlines()


def run(data, bert=None, out=None, **settings):
    out = out or data.parent / "out"
    out.mkdir(exist_ok=True)
    args = {**vars(command.parse_args(["en", "fr", str(data), "--symbols=60", f"--out={out}"])), **settings}
    make_text(Namespace(**args), run_command, bert)
    return out / "text"


def words(line):
    """Return the words of a line that sentencepiece has split, without the punctuation at its end."""
    return line.replace(" ", "").replace("▁", " ").strip(" .!")


def refusal(data, **settings):
    with pytest.raises(BertFusedError) as caught:
        run(data, **settings)
    assert not list((data.parent / "out").iterdir())  # nothing half-made is left
    return list(caught.value.errors)


def test_pairs_are_put_aside_that_training_never_sees(data, capsys):
    write(data / "train.en", read(data / "train.en") * 2)  # each pair twice
    write(data / "train.fr", read(data / "train.fr") * 2)
    text = run(data)
    assert "pairs of train are put aside for valid (seed 1)" in capsys.readouterr().out
    sides = {
        split: [[words(line) for line in read(text / f"{split}.{lang}")] for lang in ("en", "fr")]
        for split in ("train", "valid", "test")
    }
    assert len(sides["valid"][0]) == len(sides["test"][0]) == 30
    for side in (0, 1):
        train, valid, test = (set(sides[split][side]) for split in ("train", "valid", "test"))
        assert not train & valid
        assert not train & test
        assert not valid & test
    for split, (sources, targets) in sides.items():  # still translations of each other
        assert [line.upper() for line in sources] == targets, split
    assert len(read(text / "reference.test.fr")) == 30


def test_what_stands_often_in_the_text_is_trained(data):
    for lang, often in (("en", "Yes ."), ("fr", "Oui .")):
        write(data / f"train.{lang}", read(data / f"train.{lang}") + [often] * 300)
    text = run(data)
    assert [words(line) for line in read(text / "train.en")].count("Yes") == 300
    assert len(read(text / "valid.en")) == len(read(text / "test.en")) > 10


def test_the_text_for_bert_is_put_aside_in_the_same_lines(data):
    segmented = data.parent / "segmented"
    segmented.mkdir()
    write(segmented / "train.en", [line.replace(" ", "_", 1) for line in read(data / "train.en")])
    text = run(data, bert_text=segmented)
    for split in ("train", "valid", "test"):
        assert [words(line) for line in read(text / f"{split}.en")] == [
            line.replace("_", " ").strip(".") for line in read(text / "bert" / f"{split}.en")
        ]
    assert sorted(path.name for path in (text / "bert").iterdir()) == ["test.en", "train.en", "valid.en"]


def test_text_for_bert_that_does_not_fit_is_named(data):
    write(data / "test.en", ["a dog"])
    write(data / "test.fr", ["A DOG"])
    segmented = data.parent / "segmented"
    segmented.mkdir()
    write(segmented / "train.en", read(data / "train.en")[1:])
    errors = refusal(data, bert_text=segmented)
    assert f"{data}/train.en has 300 lines and {segmented}/train.en has 299; line N of --bert-text" in errors[0]
    assert f"{segmented}/test.en: there is no such file" in errors[1]
    assert "--bert-text, if given, test.en as BERT reads it (it holds train.en)" in errors[1]


def test_a_name_with_a_comma_is_refused(data):
    for lang in ("en", "fr"):
        write(data / f"test-x,y.{lang}", [f"a dog {lang}"])
    assert refusal(data) == [f"{data}/test-x,y.*: fairseq splits names at commas; rename these files"]
    with pytest.raises(BertFusedError, match="fairseq splits names at commas; rename these files"):
        _binarise(Namespace(source="en", target="fr", subwords="none"), data, run_command)


def test_given_sets_are_taken_as_they_are(data):
    write(data / "test.en", ["a dog.", "", "a dog."])
    write(data / "test.fr", ["A DOG !", "", "A DOG !"])
    write(data / "test-news.en", ["the red house."])
    write(data / "test-news.fr", ["THE RED HOUSE !"])
    text = run(data)
    assert read(text / "reference.test.fr") == ["A DOG !", "", "A DOG !"]
    assert read(text / "reference.test-news.fr") == ["THE RED HOUSE !"]
    assert len(read(text / "test.en")) == 3
    assert [words(line) for line in read(text / "test-news.en")] == ["the red house"]


def test_what_is_not_read_and_what_training_sees_is_said(data, capsys):
    sets = {"en": ["something else", "", *(f"{sentence(i)}." for i in range(3))], "fr": ["autre chose", ""]}
    sets["fr"] += [f"{sentence(0).upper()} !", "autre chose", "autre chose"]
    for lang, lines in sets.items():
        write(data / f"test.{lang}", [*lines, *lines])
        write(data / f"train.{lang}", [*read(data / f"train.{lang}"), ""])  # an empty pair, which training leaves out
        (data / f"dev.{lang}").touch()
    (data / "valid.fr.gz").touch()
    run(data)
    said = capsys.readouterr().err
    assert f"warning: {data}/test.*: 1 of 5 different pairs are in train.*, too, which makes scores too high" in said
    assert f"{data}/test.*: the sources of 2 of 5 different pairs are in train.*, too, with another translation" in said
    assert f"warning: {data} holds dev.en, dev.fr, valid.fr.gz: not read" in said


def test_the_same_seed_puts_the_same_pairs_aside(data):
    draws = [choose_held_out([data / "train.en", data / "train.fr"], ["test"], seed) for seed in (1, 1, 2)]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]


def test_everything_wrong_is_reported_together_with_file_and_line(data):
    lines = read(data / "train.en")
    write(data / "train.en", lines[:-1])
    raw = (data / "train.fr").read_bytes().splitlines(keepends=True)
    raw[6] = "Où ?\n".encode("latin-1")
    (data / "train.fr").write_bytes(b"".join(raw))
    write(data / "valid.en", ["a dog."])
    errors = refusal(data)
    assert f"{data}/train.en has 299 lines and {data}/train.fr has 300;" in errors[0]
    assert f"{data}/train.fr: 1 of the lines (number 7) are not UTF-8; convert the file" in errors[1]
    assert f"{data}/valid.fr: there is no such file" in errors[2]
    assert len(errors) == 3


@pytest.mark.parametrize("symbol", ["<s>", "</s>", "<pad>", "<unk>", "bold</s>"])
def test_a_word_that_fairseq_takes_for_its_own_symbol_is_refused(data, symbol):
    lines = read(data / "train.fr")
    write(data / "train.fr", [*lines[:7], f"{symbol} {lines[7]} {symbol}", "<S> s> <s>. <unk", *lines[9:]])
    errors = " ".join(refusal(data, subwords="subword-nmt"))
    assert "train.fr: 1 of the lines (number 8) have a word that is or ends with <s>, </s>, <pad> or <unk>" in errors
    assert "--subwords sentencepiece" in errors
    text = run(data, subwords="sentencepiece")
    assert not {"<s>", "</s>", "<pad>", "<unk>"} & {*" ".join(read(text / "train.fr")).split()}


def test_letters_that_some_lines_write_otherwise_are_warned_of(data):
    write(data / "train.fr", [f"{sentence(i)} e{chr(0x301) if i < 2 else ''}" for i in range(300)])
    findings = Findings()
    check_split([data / "train.en", data / "train.fr"], findings)
    [warning] = findings.warnings
    assert "2 of the lines (number 1, 2) are not in Unicode's form NFC" in warning


def test_empty_lines_are_named_and_their_pairs_left_out(data, capsys):
    lines = read(data / "train.en")
    lines[4] = lines[9] = " "
    write(data / "train.en", lines)
    text = run(data)
    assert (
        f"warning: {data}/train.en: 2 of the lines (number 5, 10) are empty; raw text is used without them"
        in capsys.readouterr().err
    )
    total = sum(len(read(text / f"{split}.en")) for split in ("train", "valid", "test"))
    assert total == 298


LINES = [f"{sentence(i).upper()} !" for i in range(300)]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (LINES, "are the same text in 300 of the lines"),
        (None, "train.en: there is no such file; DATA must hold train.en and"),
        (["x"] * 49, "it must have at least 50"),
        ([*LINES[:40], *[""] * 260], "train.* has 40 pairs; it must have at least 50"),  # pairs with both sides count
        ([""] * 300, "train.* has 0 pairs; it must have at least 50"),
        ("\r".join(LINES).encode(), "train.en: its lines end with carriage returns alone; convert it with tr"),
        ("\n".join(LINES).encode("utf-16"), "convert the file, for example with iconv -f utf-16 -t utf-8"),
    ],
)
def test_text_that_cannot_be_used(data, source, message):
    (data / "train.en").unlink()
    if isinstance(source, bytes):
        (data / "train.en").write_bytes(source)
    elif source is not None:
        write(data / "train.en", source)
    assert message in "\n".join(refusal(data))


def test_a_carriage_return_shifts_no_line(data):
    lines = read(data / "train.en")
    raw = (
        "".join(f"{line}\n" for line in lines).encode("utf-8").replace(b"a small", b"a\rsmall").replace(b"\n", b"\r\n")
    )
    (data / "train.en").write_bytes(raw)
    text = run(data)
    assert b"\r" not in b"".join(path.read_bytes() for path in text.glob("*.en"))
    counts = {
        split: [len(read(text / f"{split}.{lang}")) for lang in ("en", "fr")] for split in ("train", "valid", "test")
    }
    assert all(first == second for first, second in counts.values())


def test_a_carriage_return_that_fairseq_would_take_for_an_end_is_refused(data, capsys):
    source, target = data / "train.en", data / "train.fr"
    source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    target.write_bytes(target.read_bytes() + b"Non .\n")
    check_for_fairseq([source, target])
    assert f"warning: {source}: 1 of the lines (number 301) are empty" in capsys.readouterr().err
    target.write_bytes(target.read_bytes().replace(b" !", b"\r!", 1))
    with pytest.raises(BertFusedError) as caught:
        check_for_fairseq([source, target])
    said = f"{target}: 1 of the lines (number 1) have a carriage return, which ends a line for fairseq"
    assert caught.value.errors == (said,)


def test_a_bert_that_does_not_know_the_language(data, bert_dir):
    write(data / "train.en", ["日本語の 文章 です" + "。" * (i % 7) for i in range(300)])
    [error] = refusal(data, bert=bert_dir)
    assert "of its letters are unknown (line" in error
    assert "give a BERT of the source language" in error


def test_words_may_be_split_by_subword_nmt(data):
    write(data / "test.en", ["a well-known dog isn't red."])
    write(data / "test.fr", ["LE CHIEN n'est pas là."])
    text = run(data, subwords="subword-nmt")
    assert (text / "codes").stat().st_size > 0
    [split] = read(text / "test.en")
    assert split.replace("@@ ", "") == "a well-known dog isn't red."
    assert read(text / "reference.test.fr") == ["LE CHIEN n'est pas là."]


def test_every_character_and_line_is_kept(data):
    odd = ["یک می\u200cروم", "", "ﬁne \u00e9 e\u0301", "x"]
    write(data / "test.en", ["a dog"] * len(odd))
    write(data / "test.fr", odd)
    text = run(data)
    model = sentencepiece.SentencePieceProcessor(model_file=str(text / "sentencepiece.model"))
    assert [model.decode(line.split(" ")) for line in read(text / "test.fr")] == odd
    # in raw text that is translated, all spaces are one kind, as in the training text; fairseq loses others
    assert model.encode("a\u00a0dog\t\u3000!\u202f", out_type=str) == model.encode("a dog !", out_type=str)


def test_a_model_is_imported_for_text_that_can_be_used_alone(data, monkeypatch):
    imported = []

    def import_model(args, raw, run):
        imported.append(sorted(path.name for path in raw.iterdir()))

    monkeypatch.setattr(raw_text, "import_model", import_model)
    monkeypatch.setattr(raw_text, "splits_of_import", lambda folder, languages: dict.fromkeys(languages, str.upper))
    text = read(run(data, start="nllb") / "valid.en")
    assert (text, imported) == (
        [line.upper() for line in text],
        [[f"{split}.{lang}" for split in ("test", "train", "valid") for lang in ("en", "fr")]],
    )
    (data / "train.fr").write_bytes(b"")
    with pytest.raises(BertFusedError, match=r"train\.fr is empty"):
        run(data, start="nllb")
    assert len(imported) == 1


def test_a_place_that_cannot_be_written_is_named(data, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BertFusedError, match=r"/file.* cannot be written \(Not a directory\)"):
        make_text(command.parse_args(["en", "fr", str(data), f"--out={tmp_path}/file"]), run_command, None)


def test_text_that_cannot_be_read_is_named(data, monkeypatch):
    def refuse(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    findings = Findings()
    monkeypatch.setattr(Path, "open", refuse)
    assert check_split([data / "train.en", data / "train.fr"], findings) == 0
    assert findings.errors == [f"{data}/train.en cannot be read (Permission denied)"]


def test_a_byte_order_mark_is_no_text(data):
    for lang in ("en", "fr"):
        raw = b"\xef\xbb\xbf" + (data / f"train.{lang}").read_bytes()
        for split in ("train", "valid", "test"):
            (data / f"{split}.{lang}").write_bytes(raw)
    text = run(data)
    assert "\ufeff" not in "".join(path.read_text(encoding="utf-8") for path in text.glob("*.??"))


def test_numbers_that_make_no_sense(data):
    for symbols in (5, 99999999999):
        with pytest.raises(BertFusedError, match=f"sentencepiece cannot make --symbols {symbols} of this text"):
            run(data, symbols=symbols)


# --- text of scripts that have no alphabet, or no spaces


def test_the_vocabulary_has_room_for_all_characters(tmp_path, capsys):
    """Chinese has thousands of them, of which sentencepiece needs each."""
    signs = "".join(map(chr, range(0x4E00, 0x4E00 + 2_900)))
    write(tmp_path / "train.zh", [f"{signs[9 * i : 9 * i + 9]}我喜欢猫。" for i in range(330)])
    write(tmp_path / "train.en", [f"{sentence(i)}." for i in range(330)])
    (tmp_path / "out").mkdir()
    text = run(tmp_path, out=tmp_path / "out", source="zh", target="en", symbols=None)
    kept = set("".join((text / "train.zh").read_text(encoding="utf-8").split())) - {"\u2581"}
    assert len(kept) > 2_000
    used = int(capsys.readouterr().out.split("sentencepiece with ")[1].split(" symbols")[0].replace(",", ""))
    assert used > len(kept) * 1.4
    lines = [" ".join(read(text / f"train.{language}")) for language in ("zh", "en")]
    assert not any("<unk>" in line for line in lines)


def test_the_vocabulary_grows_with_the_text_and_not_with_an_alphabet(tmp_path):
    write(tmp_path / "train.de", ["Grüße, Bär!"])
    write(tmp_path / "train.fa", ["سلام"])
    characters = count_characters([tmp_path / "train.de", tmp_path / "train.fa"])
    assert characters == len(set("Grüße, Bär!سلام"))
    sizes = [default_symbols(pairs, characters) for pairs in (3_000, 10_000, 100_000, 1_000_000, 100_000_000)]
    assert sizes == [2_000, 4_000, 8_000, 16_000, 32_000]
    assert [default_symbols(pairs, 2_001) for pairs in (3_000, 10_000)] == [3_002, 4_000]


# --- settings by the amount of text, the size and the device


@pytest.mark.parametrize(
    ("pairs", "gpu", "size", "dropout"),
    [
        (3_000, False, "tiny", 0.3),
        (3_000_000, False, "tiny", 0.1),
        (9_999, True, "tiny", 0.3),
        (10_000, True, "iwslt", 0.3),
        (1_000_000, True, "base", 0.1),
    ],
)
def test_settings_follow_the_amount_of_text(pairs, gpu, size, dropout):
    nothing = dict.fromkeys(("updates", "more", "warmup", "lr"))
    chosen = size_for(Namespace(size="auto", of_size={}, **nothing), pairs, gpu)
    assert (chosen, dropout_for(chosen, pairs)) == (SIZES[size], dropout)


def test_settings_that_are_given():
    file = {"updates": 6, "more": 4, "warmup": 3, "more_lr": 0.2}
    given = Namespace(size="iwslt", of_size=file, updates=7, more=None, warmup=None, lr=0.1)
    chosen = size_for(given, 3_000, False)
    assert (chosen.updates, chosen.more, chosen.warmup, chosen.lr, chosen.more_lr) == (7, 4, 3, 0.1, 0.2)
    assert chosen.every == SIZES["iwslt"].every


@pytest.mark.parametrize("size", SIZES)
def test_the_recurrent_models_of_each_size_share_their_embeddings(size):
    flags = ["data", *SIZES[size].gru.split(), "--share-all-embeddings"]
    args = options.parse_args_and_arch(options.get_training_parser(), flags)
    assert gru_config_errors(GruConfig.from_namespace(args), Dictionary(), Dictionary()) == []


@pytest.mark.parametrize("words", [["--train-flags", "--cpu"], ["--train-flags=--cpu"]])
def test_a_single_flag_is_a_value(words):
    args = command.parse_args(["en", "fr", "data", *words, "control"])
    assert (args.train_flags, args.steps) == (["--cpu"], ["control"])
