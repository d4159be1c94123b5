"""The BERT-fused model and its presets (Zhu et al., ICLR 2020)."""

import logging
from argparse import Namespace
from typing import Any

from fairseq.models import register_model
from fairseq.models.transformer import TransformerModelBase
from fairseq.models.transformer import transformer_legacy as presets
from torch import nn

from bert_fused_plugin.bert.from_flags import describe_bert, load_source
from bert_fused_plugin.checkpoints.record import flag_record
from bert_fused_plugin.fairseq_settings import as_namespace, flags_beside
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, config_errors
from bert_fused_plugin.models.bert_fused.decoder import BertFusedDecoder
from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder
from bert_fused_plugin.models.bert_fused.warm_start import read_warm_start
from bert_fused_plugin.models.embeddings import load_embeddings
from bert_fused_plugin.models.presets import TINY, register_preset
from bert_fused_plugin.models.translation_model import TranslationModel
from bert_fused_plugin.setup_messages import REPEAT

logger = logging.getLogger(__name__)


@register_model("bert_fused")
class BertFusedModel(TranslationModel, TransformerModelBase):
    """A transformer whose encoder and decoder layers attend to BERT; fairseq's ``--task translation`` runs it, too."""

    encoder: BertFusedEncoder
    decoder: BertFusedDecoder
    config_class = BertFusedConfig

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "BertFusedModel":
        """Build the model from the flags.

        Raises:
            BertFusedError: all settings that break a rule.
        """
        cfg = cls.config_class.from_namespace(as_namespace(args))
        args.bert_unchecked = False  # fairseq saves it; the checkpoints of this training need no exception
        src_dict, tgt_dict = task.source_dictionary, task.target_dictionary
        warm_start, errors = read_warm_start(args, cfg, task)
        errors = [*config_errors(cfg, src_dict, tgt_dict), *errors]
        source: Any = load_source(cfg, task, errors, flags_beside(args, "bpe"))
        cfg.decoder.output_dim = int(cfg.decoder.output_dim)
        cfg.share_decoder_input_output_embed |= cfg.share_all_embeddings
        if cfg.fusion.replaces_embeddings:  # the encoder uses only the width and the padding index
            if cfg.encoder.layers and cfg.encoder.learned_pos:  # it has no more positions
                source.bridge.max_tokens = min(source.bridge.max_tokens, cfg.max_source_positions)
            encoder_embed = nn.Embedding(src_dict.pad() + 1, cfg.encoder.embed_dim, src_dict.pad())
        else:
            encoder_embed = cls.build_embedding(cfg, src_dict, cfg.encoder.embed_dim)
        decoder_embed = encoder_embed
        if cfg.fusion.replaces_embeddings or not cfg.share_all_embeddings:
            decoder_embed = cls.build_embedding(cfg, tgt_dict, cfg.decoder.embed_dim)
        encoder = BertFusedEncoder(cfg, src_dict, encoder_embed, source=source)
        decoder = BertFusedDecoder(cfg, tgt_dict, decoder_embed, encoder_dim=encoder.output_dim, bert_dim=source.dim)
        model = cls(cfg, encoder, decoder)
        model.settings_record = flag_record(cfg, task)
        load_embeddings(args, cfg, model)
        if warm_start is not None:
            warm_start.copy_to(model)
        line = f"{describe_bert(model, cfg.bert_model)}; {cfg.bert_fusion} fusion, drop-net {cfg.drop_net_rate()}"
        logger.info(line, extra=REPEAT)
        return model


# the paper's base: 6+6 layers, 512/2048, 8 heads
bert_fused = register_preset("bert_fused", "bert_fused", presets.base_architecture)
# the paper's model for IWSLT: 6+6 layers, 512/1024, 4 heads
bert_fused_iwslt_de_en = register_preset("bert_fused", "bert_fused_iwslt_de_en", presets.transformer_iwslt_de_en)
# the paper's model for WMT, transformer_big: 6+6 layers, 1024/4096, 16 heads, dropout 0.3
bert_fused_wmt_en_de_big = register_preset(
    "bert_fused", "bert_fused_wmt_en_de_big", presets.transformer_vaswani_wmt_en_de_big
)
# a decoder of 6 layers, 512/2048, 8 heads, that attends to BERT's states; no NMT encoder
bert_decoder = register_preset(
    "bert_fused", "bert_decoder", presets.base_architecture, bert_fusion="embedding", encoder_layers=0
)
# a model for small data: 4+4 layers, 128/256, 4 heads
bert_fused_tiny = register_preset(
    "bert_fused", "bert_fused_tiny", presets.base_architecture, **TINY, dropout=0.3, share_all_embeddings=True
)
