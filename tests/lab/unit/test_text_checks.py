"""What the recipe says of text that was mixed up, and of an encoder that does not know its language."""

import random
import re

import pytest
from test_own_data import sentence, write
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from bert_fused_lab.recipe.text_checks import _ENGLISH, Findings, check_split, check_tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyzäабвгдежзийклмнопрстуфхцчшщъыьэюя"


def warnings_of(folder, pieces, lines):
    """Return what is said of an encoder with word *pieces* and the text *lines*."""
    findings = Findings()
    save_tokenizer(folder / "bert", pieces)
    write(folder / "train.xx", lines)
    check_tokenizer(str(folder / "bert"), folder / "train.xx", findings)
    assert findings.errors == []
    return findings.warnings


@pytest.mark.parametrize(("known", "warned"), [(range(3_000), 0), (range(100, 3_000), 1)])
def test_a_bert_of_a_language_without_spaces(tmp_path, known, warned):
    """Its word pieces are characters, so the number of them in a word says nothing, but unknown ones do."""
    signs = [chr(0x4E00 + i) for i in range(3_000)]
    lines = ["".join(signs[(7 * i + j) % 1_000] for j in range(20)) for i in range(300)]
    warnings = warnings_of(tmp_path, [signs[i] for i in known], lines)
    assert len(warnings) == warned
    assert not warned or "it makes word pieces, and 14% of the letters are unknown; a BERT of" in warnings[0]


def test_a_bert_of_another_alphabet_language_splits_words(tmp_path):
    pieces = [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
    [warning] = warnings_of(tmp_path, pieces, [sentence(i) for i in range(300)])
    assert "seems to be trained for another language: it splits a word into 3." in warning


@pytest.mark.parametrize(("missing", "said"), [(None, None), (320, "in lines 301 to 900, lengths fit")])
def test_a_line_that_is_missing_in_one_file(tmp_path, missing, said):
    draw = random.Random(1)
    lengths = [draw.randint(2, 30) for _ in range(1_000)]
    write(tmp_path / "train.en", ["word " * length for length in lengths])
    translations = ["Wort " * (length + draw.randint(-1, 2)) for length in lengths]
    if missing is not None:
        del translations[missing]
        translations.append("Ende")
    write(tmp_path / "train.de", translations)
    findings = Findings()
    check_split([tmp_path / "train.en", tmp_path / "train.de"], findings)
    assert findings.errors == []
    assert [said in warning for warning in findings.warnings] == [True] * (missing is not None)


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("My mother bought apples in the garden", 0),
        ("Meine Mutter kaufte Äpfel im Garten", 1),
        ("Äitini osti omenoita puutarhasta", 1),
    ],
)
def test_an_english_bert_of_another_language(tmp_path, line, warned):
    pieces = [*LETTERS, *(f"##{letter}" for letter in LETTERS), *re.findall(r"\w+", _ENGLISH.lower())]
    assert len(warnings_of(tmp_path, [*pieces, "##fte", "##noita"], [line] * 300)) == warned


def save_tokenizer(folder, pieces):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate([*special, *pieces])}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()  # which sets Chinese characters apart
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", pad_token="[PAD]").save_pretrained(folder)
