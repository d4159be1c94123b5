import numpy as np
import pytest
import torch
from fairseq.data import AppendTokenDataset, ConcatDataset, ListDataset
from helpers import PIECES, encode
from language_models import save_language_model
from transformers import AutoModel, AutoTokenizer

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD, DictionaryBridge, collate_bert_tokens
from bert_fused_plugin.data.document_context import files_of, read_document_starts, with_context
from bert_fused_plugin.errors import BertFusedError


@pytest.fixture
def make_bridge(dictionary, tokenizer):
    return lambda context, size=32: DictionaryBridge(dictionary, tokenizer, max_tokens=size, context=context)


def read(rows):
    return [" ".join(PIECES[piece] for piece in row) for row in rows]


def frame(bridge, lines, starts=()):
    return list(with_context(bridge, bridge.word_pieces(lines), starts))


LINES = ["the old man", "sees", "a dog", "red apple"]


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (0, ["", "", "", ""]),
        (1, ["", "the old man [SEP]", "sees [SEP]", "a dog [SEP]"]),
        (2, ["", "the old man [SEP]", "the old man sees [SEP]", "sees a dog [SEP]"]),
        (9, ["", "the old man [SEP]", "the old man sees [SEP]", "the old man sees a dog [SEP]"]),
    ],
)
def test_bert_reads_the_sentences_before_the_current_one(make_bridge, context, expected):
    rows = read(frame(make_bridge(context), LINES))
    for row, before, line in zip(rows, expected, LINES):
        assert row == " ".join(f"[CLS] {before} {line} [SEP]".split())


def test_a_document_ends_at_a_blank_line(make_bridge):
    rows = read(frame(make_bridge(2), ["red", "", "apple", "  ", "a", "dog"]))
    assert rows == [
        "[CLS] red [SEP]",
        "[CLS] [SEP]",
        "[CLS] apple [SEP]",
        "[CLS] [SEP]",
        "[CLS] a [SEP]",
        "[CLS] a [SEP] dog [SEP]",
    ]


def test_a_document_begins_where_the_index_says(make_bridge):
    rows = read(frame(make_bridge(2), LINES, {0, 2}))
    assert rows[2:] == ["[CLS] a dog [SEP]", "[CLS] a dog [SEP] red apple [SEP]"]


def test_the_oldest_context_goes_first_where_berts_positions_end(make_bridge):
    bridge = make_bridge(2, size=8)
    rows = read(frame(bridge, ["the old man", "sees a", "small big dog", "the a old man dog runs"]))
    assert rows[1] == "[CLS] the old man [SEP] sees a [SEP]"
    assert rows[2] == "[CLS] sees a [SEP] small big dog [SEP]"  # "the old man" does not fit
    assert rows[3] == "[CLS] the a old man dog runs [SEP]"  # no room for context at all
    rows = read(frame(bridge, ["red", "the a old man dog runs eats"]))
    assert rows[1] == "[CLS] the a old man dog runs [SEP]"


def test_token_types_are_those_of_the_models_own_tokenizer(make_bridge, tokenizer):
    bridge = make_bridge(1)
    bert_tokens = collate_bert_tokens([torch.tensor(row) for row in frame(bridge, ["the old man", "sees [SEP] a dog"])])
    segments = bridge.segments(bert_tokens)
    # "[SEP]" as text is three pieces
    expected = tokenizer("the old man", "sees x x x a dog", return_token_type_ids=True)["token_type_ids"]
    assert segments[1].tolist() == expected
    assert not segments[0, :5].any()
    assert make_bridge(0).segments(bert_tokens) is None


def test_a_tokenizer_without_types_gives_none(dictionary, tmp_path):
    """XLM-R's, whose word pieces also a BertModel may read, as in multilingual-e5-small."""
    save_language_model("XLM-R", tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    bridge = DictionaryBridge(dictionary, tokenizer, max_tokens=32, context=1)
    rows = [torch.tensor(row) for row in frame(bridge, ["the old man", "a dog"])]
    assert rows[1].tolist() == tokenizer("the old man", "a dog")["input_ids"]
    assert bridge.segments(collate_bert_tokens(rows)) is None
    assert not any(tokenizer("the old man", "a dog", return_token_type_ids=True)["token_type_ids"])


def test_bert_takes_the_token_types(make_bridge, tokenizer, bert_dir):
    bridge, bert = make_bridge(1), FrozenBert.from_pretrained(bert_dir)
    bert_tokens = collate_bert_tokens([torch.tensor(row) for row in frame(bridge, LINES)])
    states, padding = bert(bert_tokens, bridge.segments(bert_tokens)), bert_tokens.eq(BERT_PAD)
    reference = AutoModel.from_pretrained(bert_dir).eval()
    for i in (1, 2, 3):
        inputs = tokenizer(LINES[i - 1], LINES[i], return_tensors="pt", return_token_type_ids=True)
        with torch.no_grad():
            expected = reference(**inputs).last_hidden_state[0]
        torch.testing.assert_close(states[i][~padding[i]], expected, atol=1e-5, rtol=1e-5)
    untyped = FrozenBert.from_pretrained(bert_dir)(bert_tokens)[0]
    assert not torch.allclose(states[1], untyped[1], atol=1e-3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0\nx\n", "cannot be read"),
        ("0\n5\n", "has other lines"),
        ("-1\n", "has other lines"),
        ("3\n2\n", "has other lines"),
        ("\n", "has other lines"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_index_of_documents_is_named(tmp_path, content, message):
    if content is not None:
        (tmp_path / "train.docs").write_text(content)
    with pytest.raises(BertFusedError, match=r"--bert-documents .*train.docs.* from 0 to 4, of the first") as caught:
        read_document_starts(str(tmp_path), "train", [(5, 1)])
    assert message in str(caught.value)


def test_each_file_and_each_copy_of_it_begins_a_document(tmp_path):
    files = [(4, 2), (3, 1)]
    assert read_document_starts(None, "train", files) == {4, 8}
    (tmp_path / "train.docs").write_text("0\n3\n")
    with pytest.raises(BertFusedError, match=r"train1\.docs cannot be read .* from 0 to 2, of the first sentence"):
        read_document_starts(str(tmp_path), "train", files)
    (tmp_path / "train1.docs").write_text("1\n")
    assert read_document_starts(str(tmp_path), "train", files) == {0, 3, 4, 7, 8, 9}


def test_the_files_of_what_fairseq_combines(dictionary):
    four, three = (ListDataset([encode(dictionary, "a dog")] * size, np.full(size, 3)) for size in (4, 3))
    for source, files in ((four, [(4, 1)]), (ConcatDataset([four, three], [2, 1]), [(4, 2), (3, 1)])):
        assert files_of(source) == files_of(AppendTokenDataset(source, 5)) == files
