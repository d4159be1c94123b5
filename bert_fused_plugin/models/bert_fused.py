"""The BERT-fused model and its presets (Zhu et al., ICLR 2020)."""

import logging
from argparse import ArgumentParser, Namespace
from typing import Any, Dict, List, Optional, Tuple

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModelBase
from fairseq.models.transformer.transformer_legacy import base_architecture, transformer_iwslt_de_en
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.models.bert_fused_config import BertFusedConfig, check_config
from bert_fused_plugin.models.bert_fused_decoder import BertFusedDecoder
from bert_fused_plugin.models.bert_fused_encoder import BertFusedEncoder
from bert_fused_plugin.modules.frozen_bert import FrozenBert, load_tokenizer

logger = logging.getLogger(__name__)


@register_model("bert_fused")
class BertFusedModel(TransformerModelBase):
    """A transformer whose encoder and decoder layers attend to a frozen BERT.

    Runs under ``--task bert_fused_translation`` and under fairseq's own ``--task translation``.
    """

    encoder: BertFusedEncoder
    decoder: BertFusedDecoder

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Declare the flags; their defaults stay in the config, so that presets can set others."""
        gen_parser_from_dataclass(parser, BertFusedConfig(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "BertFusedModel":
        """Build the model from the flags.

        Raises:
            BertFusedError: settings that break a rule; all of them together.
        """
        cfg = BertFusedConfig.from_namespace(args)
        src_dict, tgt_dict = task.source_dictionary, task.target_dictionary
        for side in (cfg.encoder, cfg.decoder):
            if side.layers_to_keep:  # "0,2" in --model-overrides, a list from the command line
                keep = side.layers_to_keep
                side.layers = len(keep.split(",") if isinstance(keep, str) else keep)
        bert, bridge = cls._load_bert(cfg, task)
        cfg.share_decoder_input_output_embed |= cfg.share_all_embeddings

        encoder_embed = cls.build_embedding(cfg, src_dict, cfg.encoder.embed_dim, cfg.encoder.embed_path)
        decoder_embed = (
            encoder_embed
            if cfg.share_all_embeddings
            else cls.build_embedding(cfg, tgt_dict, cfg.decoder.embed_dim, cfg.decoder.embed_path)
        )
        model = cls(
            cfg,
            BertFusedEncoder(cfg, src_dict, encoder_embed, bert=bert, bridge=bridge),
            BertFusedDecoder(cfg, tgt_dict, decoder_embed, bert_dim=bert.dim),
        )
        logger.info(
            f"BERT: {cfg.bert_model}, {bert.num_parameters:,} frozen parameters (not in checkpoints), "
            f"{sum(p.numel() for p in model.parameters() if p.requires_grad):,} trained ones; "
            f"layer {bert.layer} of {bert.depth}, drop-net {cfg.bert_drop_net}; "
            f"subwords: {bridge.subword}, detokenisation: {bridge.detok}, "
            f"at most {bridge.max_tokens} word pieces"
        )
        return model

    @classmethod
    def _load_bert(cls, cfg: BertFusedConfig, task: Any) -> Tuple[FrozenBert, DictionaryBridge]:
        errors = check_config(cfg, task.source_dictionary, task.target_dictionary)
        if cfg.bert_model is None:
            raise BertFusedError(*errors)
        try:
            tokenizer = load_tokenizer(cfg.bert_model)
            bert = FrozenBert.from_pretrained(cfg.bert_model, cfg.bert_layer)
            errors += _check_vocabulary(cfg, tokenizer, bert)
            limit = min(bert.max_positions, int(tokenizer.model_max_length))
            if cfg.bert_max_tokens is not None and cfg.bert_max_tokens > limit:
                errors.append(
                    f"--bert-max-tokens must be at most {limit}, the positions of --bert-model {cfg.bert_model}, "
                    f"got {cfg.bert_max_tokens}; leave it out for {limit}"
                )
            bridge = DictionaryBridge(
                task.source_dictionary,
                tokenizer,
                max_tokens=cfg.bert_max_tokens or limit,
                subword=cfg.bert_subword,
                detok=cfg.bert_detok,
                lang=task.cfg.source_lang or "en",
            )
        except BertFusedError as error:
            raise BertFusedError(*errors, *error.errors) from error
        raise_all(errors)
        return bert, bridge

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
        prev_output_tokens: Tensor,
        bert_tokens: Optional[Tensor] = None,
        bert_out: Optional[Tensor] = None,
        return_all_hiddens: bool = True,
        features_only: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
    ) -> Tuple[Tensor, Dict[str, List[Optional[Tensor]]]]:
        """Return the logits, (B, T, V), and the decoder's ``extra``.

        Args:
            src_tokens: (B, S).
            src_lengths: (B,).
            prev_output_tokens: (B, T).
            bert_tokens: BERT's input, (B, L); default: derived from *src_tokens*.
            bert_out: BERT's states for it, (B, L, D), from the cache; default: computed.
            return_all_hiddens: fill ``encoder_states``.
            features_only: return the states under the output layer, (B, T, C), instead.
            alignment_layer: see `BertFusedDecoder.extract_features`.
            alignment_heads: see there.
        """
        encoder_out = self.encoder(
            src_tokens,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
            bert_tokens=bert_tokens,
            bert_out=bert_out,
        )
        decoder_out: Tuple[Tensor, Dict[str, List[Optional[Tensor]]]] = self.decoder(
            prev_output_tokens,
            encoder_out=encoder_out,
            features_only=features_only,
            alignment_layer=alignment_layer,
            alignment_heads=alignment_heads,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
        )
        return decoder_out

    def load_state_dict(self, state_dict: Dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        """Load a checkpoint, after a look at what users mix up: dictionaries and BERT models.

        Raises:
            BertFusedError: the checkpoint belongs to other dictionaries or another BERT.
        """
        raise_all(_misfits(self, state_dict))
        return super().load_state_dict(state_dict, *args, **kwargs)


def _check_vocabulary(cfg: BertFusedConfig, tokenizer: PreTrainedTokenizerBase, bert: FrozenBert) -> List[str]:
    largest, rows = max(tokenizer.get_vocab().values()), bert.model.get_input_embeddings().num_embeddings
    if largest < rows:
        return []
    return [
        f"--bert-model {cfg.bert_model}: the tokenizer has ids up to {largest}, the model embeddings for {rows} only; "
        "take tokenizer and model from the same place"
    ]


def _misfits(model: BertFusedModel, state_dict: Dict[str, Tensor]) -> List[str]:
    own = model.state_dict()
    errors = []
    for side, what in (("encoder", "source"), ("decoder", "target")):
        key = f"{side}.embed_tokens.weight"
        if key in state_dict and len(state_dict[key]) != len(own[key]):
            errors.append(
                f"the checkpoint knows {len(state_dict[key])} {what} symbols, the {what} dictionary of the data has "
                f"{len(own[key])}; use the dict.*.txt that the model was trained with "
                "(fairseq-preprocess --srcdict, --tgtdict)"
            )
    widths = [key for key in own if key.endswith("bert_attn.k_proj.weight") and key in state_dict]
    for key in widths[:1]:
        if state_dict[key].size(1) == own[key].size(1):
            continue
        errors.append(
            f"the checkpoint was trained with a BERT of width {state_dict[key].size(1)}, --bert-model "
            f"{model.cfg.bert_model} has {own[key].size(1)}; name the BERT that it was trained with "
            "(--model-overrides \"{'bert_model': 'NAME_OR_DIR'}\" at generation)"
        )
    return errors


@register_model_architecture("bert_fused", "bert_fused")
def bert_fused(args: Namespace) -> None:
    """The paper's base: 6+6 layers, 512/2048, 8 heads."""
    base_architecture(args)


@register_model_architecture("bert_fused", "bert_fused_iwslt_de_en")
def bert_fused_iwslt_de_en(args: Namespace) -> None:
    """The paper's model for IWSLT: 6+6 layers, 512/1024, 4 heads."""
    transformer_iwslt_de_en(args)


@register_model_architecture("bert_fused", "bert_fused_tiny")
def bert_fused_tiny(args: Namespace) -> None:
    """For small data: 4+4 layers, 128/256, 4 heads, dropout 0.3, all embeddings shared."""
    preset = {
        "encoder_embed_dim": 128,
        "encoder_ffn_embed_dim": 256,
        "encoder_layers": 4,
        "encoder_attention_heads": 4,
        "decoder_layers": 4,
        "decoder_attention_heads": 4,
        "dropout": 0.3,
        "share_all_embeddings": True,
    }
    for name, value in preset.items():
        vars(args).setdefault(name, value)
    base_architecture(args)
