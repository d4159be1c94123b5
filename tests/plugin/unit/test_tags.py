"""Tags of languages are left out of the text that BERT reads."""

import pytest
import torch
from helpers import dictionary_of, encode, framed_ids, pad

from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.tags import language_tags, tags_named
from bert_fused_plugin.errors import BertFusedError


@pytest.fixture(scope="module")
def tagged():
    return dictionary_of(*"the dog play@@ hou@@ se <2de> <2fr> [de_DE] __en__ a.c abc".split())


@pytest.mark.parametrize(
    ("names", "tags"),
    [
        (None, []),
        ("<2de>", ["<2de>"]),
        ("<2de>, __en__", ["<2de>", "__en__"]),
        ("<2*>,<2de>", ["<2de>", "<2fr>"]),
        ("[de_DE]", ["[de_DE]"]),
        ("a.c", ["a.c"]),
        ("*", ["<2de>", "<2fr>", "[de_DE]", "__en__", "a.c", "abc", "dog", "hou@@", "play@@", "se", "the"]),
    ],
)
def test_names_stand_for_symbols(tagged, names, tags):
    assert tags_named(names, tagged) == tags


@pytest.mark.parametrize("names", ["<2xx>", "", "<2de>,", "<s>"])
def test_a_name_that_stands_for_no_symbol_is_refused(tagged, names):
    with pytest.raises(BertFusedError, match=r"--bert-strip-tags must name .* got .*no symbol is '.*'; put the"):
        tags_named(names, tagged)


def test_symbols_that_look_like_tags(tagged):
    assert language_tags(tagged) == ["<2de>", "<2fr>", "[de_DE]", "__en__"]


def test_the_tags_of_other_toolkits():
    tags = ">>fra<< >>zh_Hans<< en_XX zh_CN deu_Latn <de> <de_DE> <2zh-CN> <to_de> <lang:de> ｟de｠ __de_DE__"
    tags += " __opt_tgt_de _de_ @de@ <BT>"
    words = "2de de <unk> eng@@ re_use v_A a_b __init__ @user@@ <heading>"
    assert language_tags(dictionary_of(*words.split(), *tags.split())) == tags.split()


def test_bert_reads_what_it_would_read_without_the_tags(tagged, tokenizer):
    bridge = DictionaryBridge(tagged, tokenizer, max_tokens=32, tags=["<2de>", "<2fr>", "not there"])
    plain = DictionaryBridge(tagged, tokenizer, max_tokens=32)
    assert bridge.tags == ("<2de>", "<2fr>")
    for line in ("<2de> the dog", "the play@@ <2fr> hou@@ se xyz <2de>", "<2de>"):
        without = " ".join(word for word in line.split() if not word.startswith("<2"))
        assert bridge.text(encode(tagged, line)) == plain.text(encode(tagged, without))
        rows = framed_ids(bridge, [encode(tagged, line).tolist()])
        assert rows == framed_ids(plain, [encode(tagged, without).tolist()])
    rows = pad([encode(tagged, "<2de> the dog"), encode(tagged, "the")], tagged.pad(), left=True)
    assert torch.equal(bridge.bert_tokens(rows)[0], plain.bert_tokens(encode(tagged, "the dog").unsqueeze(0))[0])
    assert plain.text(encode(tagged, "<2de> the")) == "<2de> the"
