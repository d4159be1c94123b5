"""The BERT-fused model and its presets (Zhu et al., ICLR 2020)."""

import logging
from argparse import Namespace
from typing import Any, Dict, List, Optional, Tuple

from fairseq.data import Dictionary
from fairseq.models import register_model
from fairseq.models.transformer import TransformerModelBase
from fairseq.models.transformer.transformer_legacy import (
    base_architecture,
    transformer_iwslt_de_en,
    transformer_vaswani_wmt_en_de_big,
)
from torch import Tensor, nn

from bert_fused_plugin.bert.from_flags import describe_bert, load_bert
from bert_fused_plugin.errors import raise_all
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, kept_layers
from bert_fused_plugin.models.bert_fused.config_checks import (
    TASK_REASONS,
    config_errors,
    output_dim_errors,
    pruning_errors,
)
from bert_fused_plugin.models.bert_fused.decoder import BertFusedDecoder
from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder
from bert_fused_plugin.models.bert_fused.layer_building import pruned
from bert_fused_plugin.models.bert_fused.warm_start import read_warm_start
from bert_fused_plugin.models.embeddings import load_embedding
from bert_fused_plugin.models.presets import flags_beside, register_preset, sharding_errors
from bert_fused_plugin.models.recorded_flags import FlagRecord
from bert_fused_plugin.models.translation_model import TranslationModel, task_flag_errors
from bert_fused_plugin.modules.drop_net import batch_rng
from bert_fused_plugin.setup_messages import REPEAT

logger = logging.getLogger(__name__)


@register_model("bert_fused")
class BertFusedModel(TranslationModel, TransformerModelBase):
    """A transformer whose encoder and decoder layers attend to a frozen BERT.

    It runs under ``--task bert_fused_translation`` and under fairseq's own ``--task translation``.
    """

    encoder: BertFusedEncoder
    decoder: BertFusedDecoder
    config_class = BertFusedConfig

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "BertFusedModel":
        """Build the model from the flags.

        Raises:
            BertFusedError: all settings that break a rule.
        """
        cfg: BertFusedConfig = cls.read_config(args, task)
        raise_all(output_dim_errors(cfg))
        cfg.decoder.output_dim = int(cfg.decoder.output_dim)
        src_dict, tgt_dict = task.source_dictionary, task.target_dictionary
        raise_all(pruning_errors(cfg))
        for side in (cfg.encoder, cfg.decoder):
            kept = kept_layers(side)
            side.layers = side.layers if kept is None else len(kept)
        warm_start, errors = read_warm_start(args, cfg, task)
        errors = [*config_errors(cfg, src_dict, tgt_dict), *task_flag_errors(task, TASK_REASONS), *errors]
        bert, bridge = load_bert(cfg, task, [*errors, *sharding_errors(args)], flags_beside(args, "bpe"))
        cfg.share_decoder_input_output_embed |= cfg.share_all_embeddings
        if cfg.fusion.replaces_embeddings and cfg.encoder.learned_pos:
            bridge.max_tokens = min(bridge.max_tokens, cfg.max_source_positions)  # the encoder's positions
        encoder_embed, decoder_embed = cls._build_embeddings(cfg, src_dict, tgt_dict)
        encoder = BertFusedEncoder(cfg, src_dict, encoder_embed, bert=bert, bridge=bridge)
        decoder = BertFusedDecoder(cfg, tgt_dict, decoder_embed, encoder_dim=encoder.output_dim, bert_dim=bert.dim)
        model = cls(cfg, encoder, decoder)
        model.settings_record = FlagRecord(cfg, task)
        if warm_start is not None:
            warm_start.copy_to(model)
        line = f"{describe_bert(model, cfg.bert_model)}; {cfg.bert_fusion} fusion, drop-net {cfg.drop_net_rate()}"
        logger.info(line, extra=REPEAT)
        return model

    @classmethod
    def _build_embeddings(
        cls, cfg: BertFusedConfig, src_dict: Dictionary, tgt_dict: Dictionary
    ) -> Tuple[nn.Embedding, nn.Embedding]:
        """Return the embeddings of the source and of the target."""
        if cfg.fusion.replaces_embeddings:
            # the encoder uses only the width and the padding index
            encoder_embed = nn.Embedding(src_dict.pad() + 1, cfg.encoder.embed_dim, src_dict.pad())
        else:
            encoder_embed = cls.build_embedding(cfg, src_dict, cfg.encoder.embed_dim)
            load_embedding("--encoder-embed-path", cfg.encoder.embed_path, src_dict, encoder_embed)
        if cfg.share_all_embeddings and not cfg.fusion.replaces_embeddings:
            return encoder_embed, encoder_embed
        decoder_embed = cls.build_embedding(cfg, tgt_dict, cfg.decoder.embed_dim)
        load_embedding("--decoder-embed-path", cfg.decoder.embed_path, tgt_dict, decoder_embed)
        return encoder_embed, decoder_embed

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
            src_tokens: the source, (B, S).
            src_lengths: the lengths of the source sentences, (B,).
            prev_output_tokens: the target so far, (B, T).
            bert_tokens: BERT's input, (B, L); without it the input is derived from *src_tokens*.
            bert_out: BERT's states for *bert_tokens* from the cache, (B, L, N x D); without them BERT computes them.
            return_all_hiddens: whether to fill ``encoder_states``.
            features_only: whether to return the states under the output layer, (B, T, C), instead of the logits.
            alignment_layer: the index of a layer, as in `BertFusedDecoder.extract_features`.
            alignment_heads: a number of heads, as in `BertFusedDecoder.extract_features`.
        """
        with batch_rng(self.training):
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

    def load_state_dict(
        self, state_dict: Dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """Load a checkpoint, as `TranslationModel.load_state_dict` does, without the layers that pruning removes."""
        state_dict = pruned(self.cfg, state_dict)
        if not strict:
            # fairseq's EMA leaves the versions out, and fairseq takes a model without them for an old one, whose last
            # layer norms it removes
            versions = {key: value for key, value in self.state_dict().items() if key.endswith(".version")}
            state_dict = {**versions, **state_dict}
        return super().load_state_dict(state_dict, strict)


@register_preset("bert_fused", "bert_fused")
def bert_fused(args: Namespace) -> None:
    """The paper's base: 6+6 layers, 512/2048, 8 heads."""
    base_architecture(args)


@register_preset("bert_fused", "bert_fused_iwslt_de_en")
def bert_fused_iwslt_de_en(args: Namespace) -> None:
    """The paper's model for IWSLT: 6+6 layers, 512/1024, 4 heads."""
    transformer_iwslt_de_en(args)


@register_preset("bert_fused", "bert_fused_wmt_en_de_big")
def bert_fused_wmt_en_de_big(args: Namespace) -> None:
    """The paper's model for WMT, transformer_big: 6+6 layers, 1024/4096, 16 heads, dropout 0.3."""
    transformer_vaswani_wmt_en_de_big(args)


@register_preset("bert_fused", "bert_decoder")
def bert_decoder(args: Namespace) -> None:
    """A decoder of 6 layers, 512/2048, 8 heads, that attends to BERT's states; no NMT encoder."""
    for name, value in (("bert_fusion", "embedding"), ("encoder_layers", 0)):
        vars(args).setdefault(name, value)
    base_architecture(args)


@register_preset("bert_fused", "bert_fused_tiny")
def bert_fused_tiny(args: Namespace) -> None:
    """A model for small data: 4+4 layers, 128/256, 4 heads, dropout 0.3, all embeddings shared."""
    preset: Dict[str, Any] = {
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
