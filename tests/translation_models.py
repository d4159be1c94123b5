"""Tiny random translation models of transformers, with tokenizers of their classes, as directories made on the spot."""

import json
import random

import torch
import transformers
from slow_tokenizers import sentencepiece_model
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
)
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

WORDS = (
    "the old man sees a dog red apple gives woman eats , . ? House play playing "
    "старый человек видит собаку красное яблоко дом "
    "الرجل العجوز يرى كلبا تفاحة حمراء "
    "बूढ़ा आदमी कुत्ता देखता है लाल सेब "
    "老人看见一只狗 红苹果 很大的房子 "
    "ο γέρος βλέπει έναν σκύλο κόκκινο μήλο"
).split()  # six scripts


def lines(count, seed=0, longest=9):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]


TEXT = lines(300)
SIZES = {
    **{"d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 2, "max_position_embeddings": 64, "dropout": 0.0},
    **{"attention_dropout": 0.0, "activation_dropout": 0.0, "scale_embedding": True},
}
UPDATES = 150
EOS, PAD = "</s>", "<pad>"


def write(path, name, content):
    (path / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def trained(model, pad):
    """Return *model* after a few updates from random weights, in which it learns to end its sentences."""
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if not (isinstance(model, MarianMTModel) and "embed_positions" in name):
            parameter.data.normal_(std=0.15).add_("norm" in name and "weight" in name)
    if isinstance(model, MarianMTModel):
        model.final_logits_bias.normal_()
    config, optimizer = model.config, torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(UPDATES):
        length = int(torch.randint(3, 10, ()))
        text = torch.randint(4, min(len(model.lm_head.weight), config.vocab_size) - 4, (32, length))
        labels = torch.nn.functional.pad(text, (0, 1), value=config.eos_token_id)
        start = torch.full((32, 1), config.decoder_start_token_id)
        loss = model(input_ids=labels, decoder_input_ids=torch.cat([start, labels[:, :-1]], dim=1)).logits
        torch.nn.functional.cross_entropy(loss.flatten(0, 1), labels.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    for table in (model.get_encoder().embed_tokens, model.get_decoder().embed_tokens):
        table.weight.data[pad] = 0
    if isinstance(model, MarianMTModel):
        model.final_logits_bias[0, config.eos_token_id] = -2
    return model.eval()


def marian(path, *, separate=False, tags=(), **options):
    """OPUS-MT: two models of sentencepiece, and one vocabulary or two, whose order is not that of sentencepiece."""
    sides = [sentencepiece_model(path / side, TEXT[i::2], vocab_size=size) for i, (side, size) in enumerate(SIDES)]
    for side, _ in SIDES:
        (path / f"{side}.model").rename(path / f"{side}.spm")
        (path / f"{side}.vocab").unlink()
    source, target = (sorted(pieces) for _, pieces in sides)
    if not separate:
        source = target = sorted({*source, *target})
    names = ("vocab.json", "target_vocab.json")
    sizes = []
    for name, pieces in zip(names[: 1 + separate], (source, target)):
        symbols = [EOS, "<unk>", *tags, *pieces, PAD]
        write(path, name, {symbol: i for i, symbol in enumerate(symbols)})
        sizes.append(len(symbols))
    config = MarianConfig(
        vocab_size=sizes[0], decoder_vocab_size=sizes[-1], pad_token_id=sizes[0] - 1, eos_token_id=0,
        decoder_start_token_id=sizes[0] - 1, forced_eos_token_id=None, share_encoder_decoder_embeddings=not separate,
        **{**SIZES, "activation_function": "swish", **options},
    )  # fmt: skip
    trained(MarianMTModel(config), sizes[0] - 1).save_pretrained(path)
    languages = {"source_lang": "en", "target_lang": "mul" if tags else "de"}
    write(
        path, "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate, **languages}
    )


SIDES = (("source", 120), ("target", 125))


def of_many(path, kind, **options):
    """M2M100, NLLB and mBART-50: one model of sentencepiece, and tags of languages at the end of the vocabulary."""
    style = "bpe" if kind == "Nllb" else "unigram"
    _, pieces = sentencepiece_model(path / "sentencepiece.bpe", TEXT, vocab_size=160, model_type=style)
    (path / "sentencepiece.bpe.vocab").unlink()
    size = len(pieces) + 4
    if kind == "M2M100":
        write(path, "vocab.json", {s: i for i, s in enumerate(["<s>", PAD, EOS, "<unk>", *pieces])})
    tags = {"additional_special_tokens": FAIRSEQ_LANGUAGE_CODES} if kind == "Nllb" else {}  # as its files say
    write(path, "tokenizer_config.json", {"tokenizer_class": f"{kind}Tokenizer", **tags})
    common = {**SIZES, "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0, "decoder_start_token_id": 2}
    common.update(forced_eos_token_id=None)
    size += {"M2M100": 100 + 8, "Nllb": 202 + 1 + 2, "MBart50": 52 + 1}[kind]
    if kind == "MBart50":
        config = MBartConfig(vocab_size=size, **{**common, "activation_function": "gelu", **options})
        trained(MBartForConditionalGeneration(config), 1).save_pretrained(path)
    else:
        config = M2M100Config(vocab_size=size, **{**common, "activation_function": "relu", **options})
        trained(M2M100ForConditionalGeneration(config), 1).save_pretrained(path)


# name: what makes the directory, and the languages
TAGS = (">>deu<<", ">>fra<<")
MODELS = {
    "OPUS-MT": (marian, {}, ()),
    "OPUS-MT, tags": (marian, {"tags": TAGS, "activation_function": "relu"}, ("-t", "fra")),
    "OPUS-MT, two vocabularies": (marian, {"separate": True}, ()),
    "OPUS-MT, untied": (marian, {"tie_word_embeddings": False, "scale_embedding": False}, ()),
    "M2M100": (of_many, {"kind": "M2M100"}, ("-s", "en", "-t", "fr")),
    "NLLB": (of_many, {"kind": "Nllb"}, ("-s", "eng_Latn", "-t", "fra_Latn")),
    "mBART-50": (of_many, {"kind": "MBart50"}, ("-s", "en_XX", "-t", "fr_XX")),
}
if transformers.__version__.startswith("4."):  # which ties such a model's scores to the table of the encoder
    del MODELS["OPUS-MT, two vocabularies"]
