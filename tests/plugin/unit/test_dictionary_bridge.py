import pytest
import torch
from helpers import PIECES, dictionary_of, encode, framed, framed_ids, pad
from tokenizers import normalizers
from transformers import AutoTokenizer

from bert_fused_plugin.data.dictionary_bridge import BERT_PAD, DictionaryBridge
from bert_fused_plugin.errors import BertFusedError


def pieces(ids):
    return [PIECES[i] for i in ids]


@pytest.mark.parametrize(
    ("line", "text", "word_pieces"),
    [
        ("the old man sees .", "the old man sees .", "the old man sees ."),
        ("play@@ hou@@ se", "playhouse", "play ##house"),
        ("the play@@ hou@@ se", "the playhouse", "the play ##house"),
        ("dog play@@", "dog play", "dog play"),
        ("dog xyz man", "dog <unk> man", "dog [UNK] man"),
        ("xyz", "<unk>", "[UNK]"),
        ("xyz zyx", "<unk> <unk>", "[UNK] [UNK]"),
        ("", "", ""),
    ],
)
def test_text_and_word_pieces_of_ids(bridge, dictionary, line, text, word_pieces):
    ids = encode(dictionary, line)
    padded = pad([ids, torch.full((12,), 4)], dictionary.pad(), left=True)[0]
    assert bridge.text(ids) == bridge.text(padded) == text
    [row] = framed_ids(bridge, [ids.tolist()])
    assert pieces(row) == ["[CLS]", *word_pieces.split(), "[SEP]"]


@pytest.mark.parametrize("text", ["[SEP]", "a [CLS] dog", "</s>", "[PAD][MASK]", "<unk>"])
def test_special_tokens_in_text_are_text(bridge, text):
    [row] = framed(bridge, [text])
    inner = row[1:-1]
    assert inner
    assert not {"[CLS]", "[SEP]", "[PAD]", "[MASK]"} & set(pieces(inner))


def test_long_sentences_are_cut(dictionary, tokenizer, caplog):
    bridge = DictionaryBridge(dictionary, tokenizer, max_tokens=5)
    rows = framed(bridge, ["the old man", "the old man sees", "dog " * 2000])
    assert [len(row) for row in rows] == [5, 5, 5]
    assert pieces(rows[1]) == ["[CLS]", "the", "old", "man", "[SEP]"]
    [message] = caplog.messages  # of the first one
    assert "sentence of 4 word pieces is cut to 3 for BERT (--bert-max-tokens 5)" in message


def test_batches_are_padded_on_the_right_whatever_the_source_is(bridge, dictionary):
    rows = [encode(dictionary, "dog runs"), encode(dictionary, "the old man sees a dog")]
    for left in (True, False):
        bert_tokens = bridge.bert_tokens(pad(rows, dictionary.pad(), left))
        assert bert_tokens.dtype == torch.long
        assert pieces(bert_tokens[0][:4].tolist()) == ["[CLS]", "dog", "runs", "[SEP]"]
        assert bert_tokens[0][4:].eq(BERT_PAD).all()


def test_moses_tokenisation_is_undone(tokenizer):
    dictionary = dictionary_of("don", "&apos;t", "a", "well", "@-@", "known", "&quot;", ",", "dog")
    line = "a well @-@ known dog , don &apos;t"
    texts = [
        DictionaryBridge(dictionary, tokenizer, max_tokens=32, detok=detok).text(encode(dictionary, line))
        for detok in ("auto", "moses", "none")
    ]
    assert texts == ["a well-known dog, don't"] * 2 + [line]


@pytest.mark.parametrize("lang", ["fr", "fr_CA", "fr-CA", "FR", "fra", "fre", "fra_Latn"])
def test_moses_knows_a_language_with_its_region(tokenizer, lang):
    dictionary = dictionary_of("l&apos;", "homme", "n&apos;", "est", "là")
    bridge = DictionaryBridge(dictionary, tokenizer, max_tokens=32, detok="moses", lang=lang)
    assert bridge.text(encode(dictionary, "l&apos; homme n&apos; est là")) == "l'homme n'est là"


@pytest.mark.parametrize(
    ("lang", "line", "text"),
    [
        ("fa", "می \u200c خوانم &quot;", 'می\u200cخوانم "'),
        ("vi", "sinh _ viên &quot;", 'sinh_viên "'),
        ("ml", "അത് കേരളം &quot;", 'അത് കേരളം "'),  # the first word ends with a virama
        ("hi", "अर्थात् यह &quot;", 'अर्थात् यह "'),
        ("si", "ශ ් \u200d රී &quot;", 'ශ්\u200dරී "'),
        ("uk", "Моє ім &apos; я , п &apos; ять м &apos; ячів .", "Моє ім'я, п'ять м'ячів."),
        ("tr", "İstanbul &apos; a ve Ankara &apos; ya", "İstanbul'a ve Ankara'ya"),
        ("de", "er sagt &apos; ja &apos; .", "er sagt 'ja'."),  # a quotation
        ("de", "so ist &apos; s , ja", "so ist's, ja"),
        ("hi", "क ् या पढ ़ ा &quot;", 'क्या पढ़ा "'),  # the tokenizer in Perl
        ("ta", "அவர ் கள ் &quot;", 'அவர் கள் "'),
        ("pt", "cafe \u0301 bom &quot;", 'cafe\u0301 bom "'),
        ("zh_CN", "我 爱 北京 3 ， 他 ！", "我爱北京 3 ，他！"),  # words that another tool has split
        ("th", "ฉัน รัก เธอ", "ฉัน รัก เธอ"),  # which may be clauses
        ("th", "ฉัน รัก เธอ &quot;", 'ฉันรักเธอ "'),
        ("ja", "私@@ たち は 犬", "私たちは犬"),
    ],
)
def test_words_that_were_split_are_whole_again(tokenizer, lang, line, text):
    dictionary = dictionary_of(*line.split())
    assert DictionaryBridge(dictionary, tokenizer, max_tokens=32, lang=lang).text(encode(dictionary, line)) == text


@pytest.mark.parametrize("mark", ["&apos;", "&quot;", "@-@", "&apos;s"])
def test_each_of_moses_marks_tells_its_tokenisation(tokenizer, mark):
    for symbol in (mark, f"\u2581{mark}"):
        assert DictionaryBridge(dictionary_of("dog", symbol), tokenizer, max_tokens=32).detok == "moses"
    assert DictionaryBridge(dictionary_of("dog", f"x{mark}x"), tokenizer, max_tokens=32).detok == "none"


def test_moses_escapes_are_found_in_pieces(tokenizer):
    pieces = ["\u2581&", "apos", ";", "\u2581dog"]
    for more, expected in ((["quot"], "moses"), (["quot", "'"], "none"), ([], "none")):
        assert DictionaryBridge(dictionary_of(*pieces, *more), tokenizer, max_tokens=32).detok == expected


def test_the_fingerprint_of_a_tokenizer_covers_added_tokens_and_the_text_it_makes(dictionary, bert_dir):
    def fingerprint(change=lambda tokenizer: None):
        tokenizer = AutoTokenizer.from_pretrained(bert_dir)
        change(tokenizer)
        return DictionaryBridge(dictionary, tokenizer, max_tokens=32).tokenizer_fingerprint()

    assert fingerprint() == fingerprint()
    assert fingerprint(lambda tokenizer: tokenizer.add_tokens(["unseen"])) != fingerprint()

    def keep_case(tokenizer):
        tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)

    assert fingerprint(keep_case) != fingerprint()


def test_a_symbol_that_the_dictionary_does_not_have_is_named(bridge, dictionary):
    sentence = [dictionary.index("the"), len(dictionary), dictionary.eos()]
    message = f"the data has the source symbol {len(dictionary)}, but the dictionary has only {len(dictionary)}; take"
    with pytest.raises(BertFusedError, match=message):
        framed_ids(bridge, [sentence])
