"""Typing errors: how many there are, what they spare, and what the NMT encoder and BERT read of them."""

from collections import Counter
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import sentencepiece
import torch
from fairseq.data import LanguagePairDataset
from helpers import dictionary_of, encode
from transformers import AutoTokenizer

from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.reports.typos import misspelt, splitter, typed_sources, with_errors

LINES = ["the &apos; big dog <tag> sees", "hou@@ se xyz 5", ""]


def halves(word):
    """Split a word in two, as subword-nmt writes it; the pieces of errors are not in any dictionary."""
    return [f"{word[:2]}@@", word[2:]] if len(word) > 2 else [word]


def test_each_error_is_counted_and_what_it_says():
    seen, total = {}, Counter()
    for seed in range(1000):
        errors = Counter()
        typed = misspelt("Haus", 0.25, Random(seed), errors)
        total += errors
        if sum(errors.values()) == 1:
            seen.setdefault(*errors, set()).add(typed)
    assert seen["dropped"] == {"aus", "Hus", "Has", "Hau"}
    assert seen["doubled"] == {"HHaus", "Haaus", "Hauus", "Hauss"}
    assert seen["swapped"] == {"aHus", "Huas", "Hasu"}
    assert {"gaus", "Hsus", "Hqus", "Hais", "Haua"} < seen["replaced"]
    assert sum(total.values()) == pytest.approx(1000, abs=100)
    assert {misspelt("i", 1, Random(seed), Counter()) for seed in range(99)} == {"u", "o", "k", "ii"}
    assert all(misspelt("ab", 1, Random(seed), Counter()) for seed in range(99))


def test_what_stays_as_it_is(dictionary):
    sentences = [encode(dictionary, line) for line in LINES]
    unk = dictionary.unk()
    assert [row.tolist().count(unk) for row in sentences] == [2, 2, 0]
    typed = with_errors(sentences, dictionary, "subword_nmt", halves, 1, 1)
    words = [text.split() for text in typed.texts]
    assert [word for word in words[0] if word == "<unk>"] == ["<unk>"] * 2
    assert words[1][1:] == ["<unk>", "<unk>"]
    assert typed.sentences[1][-2:] == [None, None]
    assert typed.letters == len("thebigdogseeshouse")
    assert typed.letters / 2 < sum(typed.errors.values()) <= typed.letters  # a swap takes two of them
    assert all(new != old for new, old in zip(typed.texts, ["the <unk> big dog <unk> sees", "house <unk> <unk>"]))
    tags = dictionary_of("the", "&apos;", "<tag>", "5")
    spared = with_errors([encode(tags, "&apos; <tag> 5")], tags, "none", halves, 1, 1)
    assert (spared.sentences, spared.letters, spared.errors) == ([["&apos;", "<tag>", "5"]], 0, {})


def test_the_seed_chooses_the_errors(dictionary):
    sentences = [encode(dictionary, "the old man sees a big red house")] * 30
    once, again, other = (with_errors(sentences, dictionary, "subword_nmt", halves, 0.1, seed) for seed in (1, 1, 2))
    assert once == again != other
    share = sum(once.errors.values()) / once.letters
    assert share == pytest.approx(0.1, abs=0.03)
    changed = [i for i, text in enumerate(once.texts) if text != "the old man sees a big red house"]
    assert 0 < len(changed) < 30
    untouched = next(i for i in range(30) if i not in changed)
    assert once.sentences[untouched] == "the old man sees a big red house".split()


@pytest.mark.parametrize("with_bert", [True, False])
def test_bert_reads_the_characters_that_the_dictionary_lacks(dictionary, bert_dir, with_bert):
    """And `<unk>` of the data stays an unknown word for BERT, whose vocabulary here has `<`, `unk` and `>`."""
    rows = [encode(dictionary, line) for line in ("the dog xyz sees", "a man")]
    sizes = np.array([len(row) for row in rows])
    pairs = LanguagePairDataset(rows, sizes, dictionary, rows, sizes, dictionary)
    bridge = DictionaryBridge(dictionary, AutoTokenizer.from_pretrained(bert_dir), max_tokens=32)
    task = SimpleNamespace(
        source_dictionary=dictionary, max_source=4, bridge=bridge, datasets={"test": pairs}, with_bert_input=None
    )
    task.dataset = task.datasets.__getitem__
    task.with_bert_input = lambda bridge, name, texts: BertPairDataset(task.datasets[name], bridge, texts)
    if with_bert:
        task.datasets["test"] = BertPairDataset(pairs, bridge)
    before = task.datasets["test"]
    typed = with_errors(rows, dictionary, "subword_nmt", lambda word: ["[@@", "s"], 1, 1)
    assert typed.sentences == [["[@@", "s", "[@@", "s", None, "[@@", "s"], ["[@@", "s", "[@@", "s"]]
    with typed_sources(SimpleNamespace(task=task), "test", typed):
        batch = task.dataset("test").collater([task.dataset("test")[i] for i in (0, 1)])["net_input"]
        assert batch["src_tokens"].tolist() == [[dictionary.unk()] * 3 + [dictionary.eos()]] * 2
        assert batch["src_lengths"].tolist() == [4, 4]
        if with_bert:
            pieces = [bridge.pieces(row.tolist()) for row in batch["bert_tokens"]]
            assert pieces[0] == ["[CLS]", "[", "s", "[", "s", "[UNK]", "[", "s", "[SEP]"]
    assert task.datasets["test"] is before
    assert torch.equal(before[0]["source"], rows[0])


def test_subwords_without_a_tool_are_refused():
    assert splitter("none", {}, None, "data")("hosue") == ["hosue"]
    with pytest.raises(
        BertFusedError, match=r"--typos must split words .* \(sentencepiece\), and no file .* give --co"
    ):
        splitter("sentencepiece", {}, None, "data")


def test_sentencepiece_splits_words_as_in_text(tmp_path):
    text = [f"the {a} {b} sees the {c} ." for a in ("big", "old") for b in ("man", "dog") for c in ("cat", "house")]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text * 9), model_prefix=f"{tmp_path}/m", vocab_size=40, hard_vocab_limit=False
    )
    model = sentencepiece.SentencePieceProcessor(model_file=f"{tmp_path}/m.model")
    dictionary = dictionary_of(*(model.id_to_piece(i) for i in range(3, model.vocab_size())))
    task = SimpleNamespace(source_dictionary=dictionary, cfg=SimpleNamespace(source_lang="en", target_lang="de"))
    split = splitter("sentencepiece", {"sentencepiece": tmp_path / "m.model"}, task, str(tmp_path))
    assert split("hosue") + split("d[g") == model.encode("hosue d[g", out_type=str)
    row = encode(dictionary, " ".join(model.encode("the cat", out_type=str)))
    typed = with_errors([row], dictionary, "sentencepiece", split, 1, 3)
    assert "".join(typed.sentences[0]).replace("\u2581", " ").strip() == typed.texts[0]
