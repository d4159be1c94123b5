"""Tokenizers that are written in Python, of the classes that users bring, with vocabularies made on the spot."""

import json

import sentencepiece
from transformers import (
    BertJapaneseTokenizer,
    FlaubertTokenizer,
    M2M100Tokenizer,
    MarianTokenizer,
    PhobertTokenizer,
    XLMTokenizer,
)

JAPANESE = ["犬が赤い家を見る。", "小さい女は犬にりんごをやる。", "The dog は 走る !"]
VIETNAMESE = ["con chó nhìn_thấy ngôi_nhà đỏ .", "người phụ_nữ cho con chó quả táo"]


def _write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def _letters(text):
    return sorted({letter for line in text for letter in line if not letter.isspace()})


def _merges(text, mark):
    """The pairs of letters that begin words, and a vocabulary: these and single letters, with and without *mark*."""
    pairs = sorted({word[:2] for line in text for word in line.split() if len(word) > 2})
    pieces = [*_letters(text), *pairs]
    return [" ".join(pair) for pair in pairs], [*pieces, *(f"{piece}{mark}" for piece in pieces)]


def phobert(folder, text):
    merges, pieces = _merges(text, "@@")
    files = {"vocab.txt": pieces, "bpe.codes": merges}
    return PhobertTokenizer(*(_write(folder / name, [f"{line} 1" for line in files[name]]) for name in files))


def _bert_japanese(folder, text, words, pieces):
    letters = _letters(text)
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), "犬が"]
    file = _write(folder / "vocab.txt", vocab)
    mecab = {"mecab_dic": "unidic_lite"}  # transformers 4 has another default
    return BertJapaneseTokenizer(file, word_tokenizer_type=words, subword_tokenizer_type=pieces, mecab_kwargs=mecab)


def _of_xlm(kind, folder, text):
    merges, pieces = _merges([line.lower() for line in text], "</w>")
    special = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{i}>" for i in range(10))]
    vocab = {piece: i for i, piece in enumerate([*special, *pieces])}
    return kind(_write(folder / "vocab.json", [json.dumps(vocab)]), _write(folder / "merges.txt", [*merges, ""]))


def sentencepiece_model(file, text, **options):
    """Train ``file.model`` on *text*; return its path and its pieces."""
    common = {"vocab_size": 70, "hard_vocab_limit": False, "minloglevel": 2}
    options = {**common, **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text), model_prefix=str(file), **options)
    model = sentencepiece.SentencePieceProcessor(model_file=f"{file}.model")
    return f"{file}.model", [model.id_to_piece(i) for i in range(3, model.get_piece_size())]


def marian(folder, text):
    model, pieces = sentencepiece_model(folder / "source", text)
    vocab = {piece: i for i, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    return MarianTokenizer(model, model, _write(folder / "vocab.json", [json.dumps(vocab)]))


def m2m100(folder, text, **options):
    model, pieces = sentencepiece_model(folder / "sentencepiece", text)
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
