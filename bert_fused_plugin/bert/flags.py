"""The flags of all models that read BERT's states."""

# fairseq reads the field types: no `from __future__ import annotations`, no `X | None` in this file.
import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Dict, Optional, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from bert_fused_plugin.data.dictionary_bridge import DETOKENIZERS
from bert_fused_plugin.data.subwords import SUBWORD_CHOICES
from bert_fused_plugin.flags import Record, Rule, Specified, at_least, flag, only_with
from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS, PACKAGE


def map_flag(attentions: str, **specification: Any) -> Any:
    """Return the field of a flag that chooses the map of some *attentions*; the rest is as for `flag`."""
    maps = "; ".join(f"{name}: {kind.help}" for name, kind in ATTENTION_MAPS.items())
    return flag(
        f"The map from scores to weights in {attentions}. {maps}. All but softmax need the package {PACKAGE}.",
        "softmax",
        Record.COMPUTED,
        rule=Rule(
            lambda value: str(value) == "softmax" or find_spec(PACKAGE) is not None,
            f"needs the package {PACKAGE}, which is not installed",
            f"run: pip install {PACKAGE}",
        ),
        **specification,
    )


@dataclass
class BertFlags(FairseqDataclass, Specified):
    """The choice of the pre-trained encoder, of its input, and of the weight of its branch beside the NMT branch."""

    bert_model: Optional[str] = flag(
        "The pre-trained encoder: a local directory, or a name on the Hugging Face hub such as bert-base-uncased. It "
        "reads the source sentence, so it must know the source language. A path that begins with './' is looked up "
        "in the data directory first.",
        None,  # checkpoints know BERT by its weights, wherever it is
        values="hub name or directory",
        unset="required",
    )
    bert_tokenizer_options: Optional[str] = flag(
        "Options of the encoder's tokenizer, as NAME=VALUE with commas between them. The encoders of many-to-many "
        "translation models must be told the source language: src_lang=vie_Latn for NLLB, src_lang=vi_VN for mBART-50, "
        "src_lang=vi for M2M100.",
        None,
        Record.BERT,
        rule=Rule(
            lambda value: value is None or all("=" in option for option in value.split(",")),
            "must be NAME=VALUE, with commas between several ones",
            "give for example src_lang=vie_Latn",
        ),
        effective=lambda cfg: options_text(parse_options(cfg.bert_tokenizer_options)),
        values="NAME=VALUE,...",
        unset="as the tokenizer's files say",
    )
    bert_unchecked: bool = flag(
        "Also load checkpoints that were trained with another BERT, another tokenizer or other settings. Each "
        "difference is then a warning instead of an error.",
        False,
    )
    bert_subword: ChoiceEnum(SUBWORD_CHOICES) = flag(  # type: ignore[valid-type]
        "The kind of subwords in the source dictionary. These subwords are joined for BERT. With auto the kind is "
        "detected from the dictionary.",
        "auto",
        Record.BERT,
    )
    bert_strip_tags: Optional[str] = flag(
        "The symbols of the source dictionary that BERT does not read, with commas between them, such as "
        "'<2de>,<2fr>'. A star stands for any text: '<2*>'. The language tags that a task of fairseq adds are always "
        "left out.",
        None,
        Record.BERT,
        values="symbols",
    )
    bert_detok: ChoiceEnum(("auto", *DETOKENIZERS)) = flag(  # type: ignore[valid-type]
        "With moses, BERT reads the source with its Moses tokenisation undone. With auto, this is so if the source "
        "dictionary has symbols that only Moses makes, such as &apos;, or if the text is Chinese or Japanese in words "
        "or in subwords of subword-nmt.",
        "auto",
        Record.BERT,
    )
    bert_max_tokens: Optional[int] = flag(
        "The largest length of BERT's input in word pieces, special tokens included. The rest of a longer sentence is "
        "cut off for BERT only. The default and the maximum are BERT's number of positions, mostly 512, or its "
        "tokenizer's limit if that is smaller.",
        None,
        Record.NOTED,
        rule=at_least(3, "leave it out for BERT's own limit"),
        values="3 to BERT's positions",
        unset="BERT's positions",
    )
    bert_context: int = flag(
        "The number of previous sentences of the document that BERT reads before the current one. "
        "fairseq-interactive takes the lines of one buffer as a document, and the hub interface those of one call.",
        0,
        Record.BERT,
        rule=at_least(0, "with 0 BERT reads each sentence by itself"),
    )
    bert_layer: str = flag(
        "The layer of BERT that the model attends to. Layers are counted from 1, and 0 stands for BERT's embeddings; "
        "negative numbers count from the end, so -1 is the last layer. With mix the model learns a scalar mix of all "
        "layers and the embeddings. With random:K, training reads one of the last K layers in each batch, and "
        "evaluation their mean.",
        "-1",
        Record.BERT,
        values="a layer, mix, random:K",
    )
    bert_mask_special_tokens: bool = flag("Attend to no special tokens, such as [CLS] and [SEP].", False, Record.BERT)
    bert_branch_weights: Optional[str] = flag(
        "The weights W_NMT,W_BERT in the sum of the NMT branch and BERT's branch. The default is the paper's "
        "0.5,0.5, or 1,1 with --bert-identity-start. The authors' code uses 1,1 if drop-net is off.",
        None,
        Record.COMPUTED,
        rule=Rule(
            lambda value: bool(parse_weights(value)),
            "must be two numbers with a comma between them",
            "give two finite numbers such as 0.5,0.5",
        ),
        effective=lambda cfg: ",".join(f"{weight:.12g}" for weight in cfg.branch_weights()),
        values="two numbers",
        unset="0.5,0.5 (1,1 at an identity start)",
    )
    bert_drop_net: Optional[float] = flag(
        "The drop-net rate in [0, 1]. It is the paper's p_net, and twice the value of the authors' flag. The default "
        "is 1.0, or 0 with --bert-identity-start or gated fusion. Only a fusion of two branches has drop-net.",
        None,
        Record.NOTED,
        rule=Rule(lambda p: p is None or 0 <= p <= 1, "must be in [0, 1]", "1.0 was best in the paper, and 0 is off"),
        effective=lambda cfg: cfg.drop_net_rate(),
        unset="1.0 (0 at an identity start, or gated)",
    )
    bert_finetune: bool = flag(
        "Train BERT, too. Checkpoints then hold BERT's weights, and --bert-cache cannot be used.", False
    )
    bert_finetune_layers: Optional[int] = flag(
        "How many layers to train, counted down from the one that is read. The default is all, and the embeddings.",
        None,
        Record.NOTED,
        where=(only_with("bert_finetune"),),
        values="1 to the number of the highest layer that is read",
        unset="all, and the embeddings",
    )
    bert_lr_factor: float = flag(
        "BERT's learning rate is this factor times --lr. It has no effect with LAMB or Adafactor's --scale-parameter, "
        "nor on weight decay.",
        0.1,
        Record.NOTED,
        rule=Rule(
            lambda value: 1e-3 <= value <= 100, "must be in [0.001, 100]", "leave --bert-finetune out to freeze BERT"
        ),
        where=(only_with("bert_finetune"),),
    )

    def drop_net_rate(self) -> float:
        """Return p_net, which is 1.0, the paper's best, unless the flag sets it."""
        return 1.0 if self.bert_drop_net is None else self.bert_drop_net

    def branch_weights(self) -> Tuple[float, float]:
        """Return the weights of the NMT branch and of BERT's branch; ValueError as of `parse_weights`."""
        return parse_weights(self.bert_branch_weights)


def parse_options(options: Optional[str]) -> Dict[str, Any]:
    """Return the names and values of ``--bert-tokenizer-options``; true and false are no texts."""
    named = (option.partition("=") for option in (options or "").split(","))
    switches = {"true": True, "false": False}
    given = {name.strip(): value.strip() for name, sign, value in named if sign}
    return {name: switches.get(value.lower(), value) for name, value in given.items()}


def options_text(options: Dict[str, Any]) -> Optional[str]:
    """Return the one text that checkpoints record for *options* of a tokenizer; None if there are none."""
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in options.items()}
    return ",".join(f"{name}={texts[name]}" for name in sorted(texts)) or None


def parse_weights(weights: Optional[str], default: str = "0.5,0.5") -> Tuple[float, float]:
    """Return the numbers of ``--bert-branch-weights``.

    Raises:
        ValueError: *weights* are not two finite numbers.
    """
    w_nmt, w_bert = map(float, (default if weights is None else weights).split(","))
    if not (math.isfinite(w_nmt) and math.isfinite(w_bert)):
        raise ValueError
    return w_nmt, w_bert
