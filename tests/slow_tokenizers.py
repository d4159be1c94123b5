"""Tokenizers that are written in Python, of the classes that users bring, with vocabularies made on the spot."""

import io
import json
from itertools import chain

import sentencepiece
from subword_nmt.learn_bpe import learn_bpe
from transformers import (
    BertJapaneseTokenizer,
    FlaubertTokenizer,
    M2M100Tokenizer,
    MarianTokenizer,
    PhobertTokenizer,
    XLMTokenizer,
)

SPECIAL = [f"<special{i}>" for i in range(10)]
JAPANESE = ["犬が赤い家を見る。", "小さい女は犬にりんごをやる。", "The dog は 走る !"]
VIETNAMESE = ["con chó nhìn_thấy ngôi_nhà đỏ .", "người phụ_nữ cho con chó quả táo"]


def _merges(text):
    out = io.StringIO()
    learn_bpe(text, out, 60, min_frequency=1)
    return out.getvalue().splitlines()[1:]


def _write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def _letters(text):
    return sorted({letter for line in text for letter in line if not letter.isspace()})


def phobert(folder, text):
    merges = _write(folder / "bpe.codes", [f"{merge} 1" for merge in _merges(text)])
    empty = PhobertTokenizer(_write(folder / "vocab.txt", []), merges)
    pieces = [empty.tokenize(line) for line in text]
    pieces = dict.fromkeys([*chain(*pieces), *_letters(text), *(f"{letter}@@" for letter in _letters(text))])
    return PhobertTokenizer(_write(folder / "vocab.txt", [f"{piece} 1" for piece in pieces]), merges)


def _bert_japanese(folder, text, words, pieces):
    letters = _letters(text)
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), "犬が"]
    file = _write(folder / "vocab.txt", vocab)
    return BertJapaneseTokenizer(file, word_tokenizer_type=words, subword_tokenizer_type=pieces)


def _of_xlm(kind, folder, text):
    merges = _write(folder / "merges.txt", [*_merges(text), ""])

    def make(pieces):
        vocab = {piece: i for i, piece in enumerate(["<s>", "</s>", "<pad>", "<unk>", *SPECIAL, *pieces])}
        _write(folder / "vocab.json", [json.dumps(vocab)])
        return kind(str(folder / "vocab.json"), merges)

    letters = _letters(text)
    return make(dict.fromkeys([*chain(*map(make([]).tokenize, text)), *letters, *(f"{one}</w>" for one in letters)]))


def _sentencepiece(file, text):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_prefix=str(file), vocab_size=70, hard_vocab_limit=False, minloglevel=2
    )
    model = sentencepiece.SentencePieceProcessor(model_file=f"{file}.model")
    return f"{file}.model", [model.id_to_piece(i) for i in range(3, model.get_piece_size())]


def marian(folder, text):
    model, pieces = _sentencepiece(folder / "source", text)
    vocab = {piece: i for i, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    return MarianTokenizer(model, model, _write(folder / "vocab.json", [json.dumps(vocab)]))


def m2m100(folder, text, **options):
    model, pieces = _sentencepiece(folder / "sentencepiece", text)
    vocab = {piece: i for i, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces])}
    return M2M100Tokenizer(_write(folder / "vocab.json", [json.dumps(vocab)]), model, **options)


# name: what makes the tokenizer of a folder and a text
SLOW = {
    "PhoBERT": phobert,
    "BERT, Japanese characters": lambda folder, text: _bert_japanese(folder, text, "basic", "character"),
    "BERT, Japanese words": lambda folder, text: _bert_japanese(folder, text, "basic", "wordpiece"),
    "BERT, MeCab": lambda folder, text: _bert_japanese(folder, text, "mecab", "wordpiece"),
    "FlauBERT": lambda folder, text: _of_xlm(FlaubertTokenizer, folder, text),
    "XLM": lambda folder, text: _of_xlm(XLMTokenizer, folder, text),
    "Marian": marian,
    "M2M100": m2m100,
}
