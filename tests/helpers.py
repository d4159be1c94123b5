"""What several tests need."""

import argparse
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

import bert_fused_plugin  # noqa: F401  registers the architectures
from bert_fused_plugin.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropy,
    LabelSmoothedCrossEntropyConfig,
)
from bert_fused_plugin.models.bert_fused import BertFusedModel, bert_fused
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.tasks.bert_fused_translation import BertFusedTranslationTask
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig


def _cpu_has_half():
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2), torch.nn.Dropout(0.5)).half()
    try:
        layer(torch.ones(2, 2, dtype=torch.half)).sum().backward()
    except RuntimeError:
        return False
    return True


CPU_HAS_HALF = _cpu_has_half()  # old versions of torch compute in float16 on GPUs only
needs_half = pytest.mark.skipif(not CPU_HAS_HALF, reason="this torch does not compute in float16 on a CPU")

_SHARED = "the a small big old man woman dog house red apple eats sees gives runs . , ?".split()
WORDS = [*_SHARED, "play@@", "hou@@", "se"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_SHARED, "play", "hou", "sep", "unk", *"[]<>/s"]
PIECES += ["##house", "##se", "##s", "##p"]
LINES = ["the old man sees a dog", "red apple", ""]
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}

# B, S, L, T are different everywhere, so that a transposition fails
SIZES = {"encoder_embed_dim": 8, "decoder_embed_dim": 8, "encoder_ffn_embed_dim": 18, "decoder_ffn_embed_dim": 18}
SIZES.update(encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, dropout=0.0)


def dictionary_of(*symbols: str) -> Dictionary:
    result = Dictionary()
    for symbol in symbols:
        result.add_symbol(symbol)
    return result


def write_bert(path) -> None:
    """Write a random 2-layer BERT of width 12, 4 heads, 32 positions and some 40 word pieces."""
    vocab = {piece: i for i, piece in enumerate(PIECES)}
    backend = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 20}
    config = BertConfig(vocab_size=len(vocab), **sizes, max_position_embeddings=32, initializer_range=0.5)
    BertModel(config).save_pretrained(path)


def task_of(source: Dictionary, target=None) -> SimpleNamespace:
    """A task as far as models ask for it, with the dictionary *source* for both languages unless there is *target*."""
    cfg = SimpleNamespace(source_lang="en", target_lang="de")
    return SimpleNamespace(source_dictionary=source, target_dictionary=target or source, cfg=cfg)


def translation_task(dictionary: Dictionary, **settings) -> BertFusedTranslationTask:
    """Make the plug-in's own task, with one *dictionary* for both languages."""
    settings = {"source_lang": "en", "target_lang": "de", "max_source_positions": 50, **settings}
    return BertFusedTranslationTask(BertFusedTranslationConfig(**settings), dictionary, dictionary)


def write_corpus(path: Path, **sizes: int) -> None:
    """Write {split}.en, random words, and {split}.de, the same words in reverse."""
    rng = random.Random(5)
    for split, size in sizes.items():
        lines = [[rng.choice(WORDS[:15]) for _ in range(rng.randint(1, 8))] for _ in range(size)]
        lines[0] = [*lines[0], "play@@", "hou@@", "se"]
        for lang, step in (("en", 1), ("de", -1)):
            text = "".join(" ".join(words[::step]) + "\n" for words in lines)
            (path / f"{split}.{lang}").write_text(text, encoding="utf-8")


def make_model(dictionary, **flags) -> BertFusedModel:
    args = argparse.Namespace(**{**SIZES, **flags})
    bert_fused(args)
    return BertFusedModel.build_model(args, task_of(dictionary))


# the same of the recurrent models
GRU_SIZES = {"encoder_embed_dim": 6, "encoder_hidden_size": 5, "decoder_embed_dim": 7, "decoder_hidden_size": 8}
GRU_SIZES.update(decoder_out_embed_dim=9, max_source_positions=50, max_target_positions=50)


def make_gru(dictionary, **flags) -> GruModel:
    args = argparse.Namespace(**{**GRU_SIZES, **flags})
    return GruModel.build_model(args, task_of(dictionary))


def criterion_of(task, **flags) -> LabelSmoothedCrossEntropy:
    """Build our criterion for *task*."""
    cfg = LabelSmoothedCrossEntropyConfig(**{"sentence_avg": False, **flags})
    return LabelSmoothedCrossEntropy.build_criterion(cfg, task)


def randomise(module) -> None:
    """Give each parameter a random value: biases and layer norms start at constants that hide mistakes."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.4)


class Times(nn.Module):
    """Stands where a dropout stands, so that formulas see it."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x


class Call:
    """Pickles as the call of a function, which then happens when it is loaded."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def encode(dictionary, line: str) -> torch.Tensor:
    """Return the ids of *line*, ending in eos."""
    return dictionary.encode_line(line, add_if_not_exist=False).long()


def framed(bridge, texts):
    """Return BERT's input for raw *texts*, special tokens included, without context."""
    return [bridge.frame(pieces) for pieces in bridge.word_pieces(texts)]


def framed_ids(bridge, sentences):
    """Return the same for *sentences* of fairseq ids."""
    return [bridge.frame(pieces) for pieces in bridge.word_pieces_of_tokens(sentences)]


def pad(rows, padding_idx: int, left: bool) -> torch.Tensor:
    """Return *rows* as one tensor, padded on the left or on the right."""
    width = max(len(row) for row in rows)
    result = torch.full((len(rows), width), padding_idx)
    for i, row in enumerate(rows):
        result[i, width - len(row) if left else 0 : width if left else len(row)] = row
    return result


def assert_close(actual, expected, atol: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, atol=atol, rtol=1e-5)


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def weighted(w_nmt, w_bert):
    return lambda mix, nmt, bert: w_nmt * nmt + w_bert * bert


def gated(mix, nmt, bert):
    gate = 1 / (1 + torch.exp(-(bert @ mix.w.weight.T + mix.w.bias + nmt @ mix.u.weight.T)))
    return gate * bert + (1 - gate) * nmt


# the formula of each fusion of two branches, of its module *mix* and of both branches, (..., C)
FORMULAS = {"parallel": weighted(0.5, 0.5), "gated": gated}
