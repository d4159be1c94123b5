"""The programs behind examples/own_data/run.sh and text of scripts that have no alphabet, or no spaces."""

import prepare
import pytest
from test_own_data import read, sentence, write
from text_checks import Findings, check_tokenizer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def test_the_vocabulary_has_room_for_all_characters(tmp_path, capsys):
    """Chinese has thousands of them, of which sentencepiece needs each."""
    signs = "".join(map(chr, range(0x4E00, 0x4E00 + 2_900)))
    write(tmp_path / "train.zh", [f"{signs[9 * i : 9 * i + 9]}我喜欢猫。" for i in range(330)])
    write(tmp_path / "train.en", [f"{sentence(i)}." for i in range(330)])
    (tmp_path / "out").mkdir()
    prepare.main(prepare.parse_args([str(tmp_path), str(tmp_path / "out"), "zh", "en"]))
    text = tmp_path / "out" / "text"
    kept = set("".join((text / "train.zh").read_text(encoding="utf-8").split())) - {"\u2581"}
    assert len(kept) > 2_000
    used = int(capsys.readouterr().out.split("sentencepiece with ")[1].split(" symbols")[0].replace(",", ""))
    assert used > len(kept) * 1.4
    lines = [" ".join(read(text / f"train.{language}")) for language in ("zh", "en")]
    assert not any("<unk>" in line for line in lines)


def test_the_vocabulary_grows_with_the_text_and_not_with_an_alphabet(tmp_path):
    write(tmp_path / "train.de", ["Grüße, Bär!"])
    write(tmp_path / "train.fa", ["سلام"])
    characters = prepare.count_characters([tmp_path / "train.de", tmp_path / "train.fa"])
    assert characters == len(set("Grüße, Bär!سلام"))
    sizes = [prepare.default_symbols(pairs, characters) for pairs in (3_000, 10_000, 100_000, 1_000_000, 100_000_000)]
    assert sizes == [2_000, 4_000, 8_000, 16_000, 32_000]
    assert [prepare.default_symbols(pairs, 2_001) for pairs in (3_000, 10_000)] == [3_002, 4_000]


@pytest.mark.parametrize(("known", "warned"), [(range(3_000), 0), (range(100, 3_000), 1)])
def test_a_bert_of_a_language_without_spaces(tmp_path, known, warned):
    """Its word pieces are characters, so the number of them in a word says nothing, but unknown ones do."""
    signs = [chr(0x4E00 + i) for i in range(3_000)]
    save_tokenizer(tmp_path / "bert", [signs[i] for i in known])
    write(tmp_path / "train.zh", ["".join(signs[(7 * i + j) % 1_000] for j in range(20)) for i in range(300)])
    findings = Findings()
    check_tokenizer(str(tmp_path / "bert"), tmp_path / "train.zh", findings)
    assert findings.errors == []
    assert len(findings.warnings) == warned
    assert not warned or "it makes word pieces, 14% of them unknown; a BERT of" in findings.warnings[0]


def test_a_bert_of_another_alphabet_language_splits_words(tmp_path):
    save_tokenizer(
        tmp_path / "bert", [*"abcdefghijklmnopqrstuvwxyz", *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")]
    )
    write(tmp_path / "train.en", [sentence(i) for i in range(300)])
    findings = Findings()
    check_tokenizer(str(tmp_path / "bert"), tmp_path / "train.en", findings)
    [warning] = findings.warnings
    assert "seems to be trained for another language: it splits a word into 3." in warning


def save_tokenizer(folder, pieces):
    """Save BERT's tokenizer with a vocabulary of these pieces."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate([*special, *pieces])}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()  # which sets Chinese characters apart
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", pad_token="[PAD]").save_pretrained(folder)
