"""Tokenizers, also those that are written in Python, give BERT the same input as they give their own models."""

import copy
import shutil

import pytest
from helpers import dictionary_of, framed
from language_models import MAKERS, TEXT, save_language_model
from sentencepiece import SentencePieceProcessor
from slow_tokenizers import JAPANESE, SLOW, VIETNAMESE, sentencepiece_model
from transformers import AddedToken, AutoTokenizer

from bert_fused_plugin.bert.flags import parse_options
from bert_fused_plugin.bert.pretrained_bert import load_tokenizer
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import BertFusedError

LINES = {"PhoBERT": VIETNAMESE, **dict.fromkeys((name for name in SLOW if "BERT, " in name), JAPANESE)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A function that returns the directory of a tokenizer: saved(name)."""
    made = {}

    def save(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("tokenizer")
            if name in SLOW:
                tokenizer = SLOW[name](tmp_path_factory.mktemp("files"), [*LINES.get(name, TEXT), *TEXT])
                tokenizer.save_pretrained(made[name])
            else:
                save_language_model(name, made[name])
        return str(made[name])

    return save


def make_bridge(directory, **options):
    return DictionaryBridge(dictionary_of("a"), load_tokenizer(directory), **{"max_tokens": 60, **options})


@pytest.mark.parametrize("name", [*SLOW, *(name for name in MAKERS if name not in SLOW)])
def test_bert_reads_what_the_tokenizer_gives_its_own_model(name, saved):
    tokenizer, bridge = AutoTokenizer.from_pretrained(saved(name)), make_bridge(saved(name))
    lines = [*LINES.get(name, TEXT), "a", "  " if name in SLOW else "red apple"]
    rows = framed(bridge, lines)
    assert rows == [tokenizer(line)["input_ids"] for line in lines]
    special, [empty] = tokenizer("")["input_ids"], framed(bridge, [""])
    assert empty == special if special else len(empty) == 1  # GPT-2 and Qwen add nothing
    assert tokenizer.unk_token_id not in rows[0]
    first, second = bridge.word_pieces(lines[:2])
    assert bridge.frame(second, context=first) == tokenizer(*lines[:2])["input_ids"]
    twin = copy.deepcopy(bridge)  # as fairseq's EMA makes one
    assert (framed(twin, lines), twin.tokenizer_fingerprint()) == (rows, bridge.tokenizer_fingerprint())
    assert bridge.pieces(rows[0])[1:-1] == tokenizer.convert_ids_to_tokens(rows[0])[1:-1]


@pytest.mark.parametrize("name", SLOW)
def test_tokens_that_a_user_has_added_stay_whole(name, saved, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(saved(name))
    tokenizer.add_tokens(["covid", "covid19", AddedToken("flu", single_word=True)])
    tokenizer.save_pretrained(tmp_path)
    [pieces] = make_bridge(str(tmp_path)).word_pieces(["a covid19 fluent flu a"])
    covid, covid19, flu = tokenizer.convert_tokens_to_ids(["covid", "covid19", "flu"])
    assert [pieces.count(piece) for piece in (covid, covid19, flu)] == [0, 1, 1]


def test_a_model_of_sentencepiece_normalises_its_text(tmp_path):
    special = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
    names = {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
    model, _ = sentencepiece_model(tmp_path / "spm", ["狗 , 家 ! ( dog )", *TEXT], **special, **names)
    (tmp_path / "config.json").write_text('{"model_type": "deberta-v2"}')
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "vocab_type": "spm"}')
    bridge = make_bridge(str(tmp_path))
    line = "狗，家！\u00a0（ｄｏｇ）"
    [pieces] = bridge.word_pieces([line])
    assert bridge.pieces(pieces) == SentencePieceProcessor(model_file=model).encode(line, out_type=str)


def test_signs_that_a_model_of_sentencepiece_names_are_text(tmp_path):
    line = "the dog ( 3 - 4 ) sees ."
    special = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": "[CLS],[SEP],[MASK]"}
    sentencepiece_model(tmp_path / "spiece", [*TEXT, line], user_defined_symbols="(,),-,.", **special)
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "AlbertTokenizer"}')
    bridge = make_bridge(str(tmp_path))
    [pieces] = bridge.word_pieces([line])
    assert [piece for piece in bridge.pieces(pieces) if piece in "()-."] == ["(", "-", ")", "."]


@pytest.mark.parametrize("name", [*SLOW, "XLM-R", "mBART", "T5"])
def test_special_tokens_in_text_are_not_those_of_the_tokenizer(name, saved):
    """Of the last three, which are fast, they are pieces too."""
    tokenizer, bridge = load_tokenizer(saved(name)), make_bridge(saved(name))
    [inner] = bridge.word_pieces([" ".join(["a", *tokenizer.all_special_tokens, "a"])])
    # the word tokenizers of Japanese never split them
    assert name.startswith("BERT, ") or name not in SLOW or len(inner) > 2 + len(tokenizer.all_special_tokens)
    assert not {*inner} & {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}


@pytest.mark.parametrize("file", ["bpe.codes", "vocab.txt"])
def test_each_file_of_a_tokenizer_is_part_of_its_identity(file, saved, tmp_path):
    moved = shutil.copytree(saved("PhoBERT"), tmp_path / "moved")
    assert make_bridge(str(moved)).identity() == make_bridge(saved("PhoBERT")).identity()
    lines = (moved / file).read_text(encoding="utf-8").splitlines()
    (moved / file).write_text("\n".join([*lines[1:], lines[0], ""]), encoding="utf-8")
    assert make_bridge(str(moved)).identity() != make_bridge(saved("PhoBERT")).identity()


def test_options_reach_the_tokenizer_and_unknown_ones_are_named(saved, caplog):
    default, vietnamese = (load_tokenizer(saved("M2M100"), parse_options(given)) for given in (None, "src_lang=vi"))
    assert "its tokenizer says en; for another language give --bert-tokenizer-options src_lang=CODE" in caplog.text
    assert default("a")["input_ids"][1:] == vietnamese("a")["input_ids"][1:]
    assert default("a")["input_ids"][0] != vietnamese("a")["input_ids"][0]
    assert len(caplog.records) == 1
    with pytest.raises(BertFusedError, match=r"^--bert-tokenizer-options: the tokenizer of .* has no sorce_lang; its "):
        load_tokenizer(saved("M2M100"), parse_options("sorce_lang=vi"))
    cased = load_tokenizer(saved("BERT, Japanese words"), parse_options("do_lower_case=true"))
    assert cased.do_lower_case is True
