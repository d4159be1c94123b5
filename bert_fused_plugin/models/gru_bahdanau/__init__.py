"""The recurrent model and its presets: RNNsearch (Bahdanau et al., ICLR 2015), and models with other attentions."""

import logging
from argparse import ArgumentParser, Namespace
from typing import Any, Dict, Optional, Tuple

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import FairseqEncoderDecoderModel, register_model
from torch import Tensor

from bert_fused_plugin.bert.flags import kind_errors
from bert_fused_plugin.bert.from_flags import describe_bert, load_bert
from bert_fused_plugin.bert.record import incompatibilities
from bert_fused_plugin.errors import raise_all
from bert_fused_plugin.models.embeddings import build_embedding, load_embedding
from bert_fused_plugin.models.gru_bahdanau.config import (
    GruConfig,
    gru_config_errors,
    gru_drop_net_rate,
    gru_task_reasons,
)
from bert_fused_plugin.models.gru_bahdanau.decoder import Extra, GruDecoder
from bert_fused_plugin.models.gru_bahdanau.encoder import GruEncoder
from bert_fused_plugin.models.gru_bahdanau.initialisation import initialise
from bert_fused_plugin.models.gru_bahdanau.settings import settings_record
from bert_fused_plugin.models.hub import TranslationHub, load_hub
from bert_fused_plugin.models.other_parameters import explained, without_records
from bert_fused_plugin.models.presets import as_namespace, register_preset, sharding_errors, warn_of_lone_processes
from bert_fused_plugin.models.settings_record import SettingsRecord, settings_incompatibilities
from bert_fused_plugin.models.task_check import check_task, task_flag_errors
from bert_fused_plugin.modules.batch_rng import batch_rng
from bert_fused_plugin.modules.weight_layout import lay_out_weights
from bert_fused_plugin.setup_messages import REPEAT

logger = logging.getLogger(__name__)


@register_model("gru_bahdanau")
class GruModel(FairseqEncoderDecoderModel):
    """A bidirectional GRU encoder, and a GRU decoder that attends to its annotations."""

    encoder: GruEncoder
    decoder: GruDecoder
    settings_record: SettingsRecord

    config_class = GruConfig

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Declare the flags without defaults; these stay in the config, so that presets can set others."""
        gen_parser_from_dataclass(parser, cls.config_class(), delete_default=True, with_prefix="")

    @classmethod
    def from_pretrained(cls, *args: Any, **options: Any) -> TranslationHub:
        """Load a finished model for raw text; the arguments are those of `load_hub`."""
        return load_hub(cls, *args, **options)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "GruModel":
        """Build the model from the flags.

        Raises:
            BertFusedError: some settings break a rule; the error lists all of them.
        """
        check_task(task)
        warn_of_lone_processes()
        cfg = GruConfig.from_namespace(as_namespace(args))
        raise_all(kind_errors(cfg))
        src_dict, tgt_dict = task.source_dictionary, task.target_dictionary
        errors = [*gru_config_errors(cfg, src_dict, tgt_dict), *task_flag_errors(task, gru_task_reasons(cfg))]
        errors += sharding_errors(args)
        bert, bridge = load_bert(cfg, task, errors, args) if cfg.bert_model is not None else (None, None)
        raise_all(errors)
        encoder_embed = build_embedding(src_dict, cfg.encoder_embed_dim)
        decoder_embed = encoder_embed if cfg.share_all_embeddings else build_embedding(tgt_dict, cfg.decoder_embed_dim)
        encoder = GruEncoder(cfg, src_dict, encoder_embed, bert=bert, bridge=bridge)
        bert_dim = None if bert is None else bert.dim
        decoder = GruDecoder(cfg, tgt_dict, decoder_embed, context_dim=encoder.output_dim, bert_dim=bert_dim)
        model = cls(cfg, encoder, decoder)
        model.settings_record = settings_record(cfg, task)
        initialise(model, str(cfg.rnn_init))
        load_embedding("--encoder-embed-path", cfg.encoder_embed_path, src_dict, encoder_embed)
        load_embedding("--decoder-embed-path", cfg.decoder_embed_path, tgt_dict, decoder_embed)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        attention = "no" if decoder.attention is None else cfg.attention
        logger.info(
            f"The recurrent model has {attention} attention and {parameters:,} parameters. The encoder has "
            f"{cfg.encoder_layers} x 2 x {cfg.encoder_hidden_size} units, and the decoder has "
            f"{cfg.decoder_layers} x {cfg.decoder_hidden_size}."
        )
        if bert is not None:
            line = f"{describe_bert(model, cfg.bert_model)}; drop-net {gru_drop_net_rate(cfg)}"
            logger.info(line, extra=REPEAT)
        return model

    def __init__(self, cfg: GruConfig, encoder: GruEncoder, decoder: GruDecoder) -> None:
        super().__init__(encoder, decoder)
        self.cfg = cfg

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Prepare the model for translation, as fairseq's commands and its hub interface ask for it."""
        super().prepare_for_inference_(cfg)
        lay_out_weights(self)

    def load_state_dict(self, state_dict: Dict[str, Tensor], strict: bool = True, *args: Any, **kwargs: Any) -> Any:
        """Load a checkpoint after a check that its dictionaries, its BERT and its settings are those of this model.

        Without *strict* nothing is checked: so fairseq's EMA loads what it has computed, after each update.

        Raises:
            BertFusedError: the checkpoint belongs to other dictionaries, another BERT, other settings or sizes.
        """
        if not strict:
            return super().load_state_dict(without_records(state_dict), strict, *args, **kwargs)
        raise_all(incompatibilities(self, state_dict) + settings_incompatibilities(self, state_dict))
        with explained(self, state_dict):
            return super().load_state_dict(state_dict, strict, *args, **kwargs)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
        prev_output_tokens: Tensor,
        bert_tokens: Optional[Tensor] = None,
        bert_out: Optional[Tensor] = None,
        features_only: bool = False,
    ) -> Tuple[Tensor, Extra]:
        """Return the logits, (B, T, V), and the decoder's ``extra``.

        Args:
            src_tokens: the source tokens, (B, S).
            src_lengths: the lengths of the sources; they are not used.
            prev_output_tokens: the target tokens, shifted by one position, (B, T).
            bert_tokens: BERT's input, (B, L); None: it is derived from *src_tokens*.
            bert_out: BERT's states for *bert_tokens*, (B, L, N x D), from the cache; None: they are computed.
            features_only: whether to return t, (B, T, l), in place of the logits.
        """
        with batch_rng(self.training):
            encoder_out = self.encoder(src_tokens, bert_tokens=bert_tokens, bert_out=bert_out)
            out: Tuple[Tensor, Extra] = self.decoder(
                prev_output_tokens, encoder_out=encoder_out, features_only=features_only
            )
        return out


def _preset(args: Namespace, **values: Any) -> None:
    for name, value in values.items():
        vars(args).setdefault(name, value)


@register_preset("gru_bahdanau", "gru_bahdanau")
def gru_bahdanau(args: Namespace) -> None:
    """Set RNNsearch as in the paper: embeddings 620, states 1000, maxout 500, and the paper's initialisation."""
    _preset(args, rnn_init="paper")


@register_preset("gru_bahdanau", "gru_bahdanau_iwslt_de_en")
def gru_bahdanau_iwslt_de_en(args: Namespace) -> None:
    """Set a model for corpora of the size of IWSLT: embeddings 256, states 512, maxout 256, dropout 0.3."""
    _preset(
        args,
        encoder_embed_dim=256,
        encoder_hidden_size=512,
        decoder_embed_dim=256,
        decoder_hidden_size=512,
        decoder_out_embed_dim=256,
        dropout=0.3,
    )


@register_preset("gru_bahdanau", "gru_bahdanau_tiny")
def gru_bahdanau_tiny(args: Namespace) -> None:
    """Set a model of the size class of ``bert_fused_tiny``, with shared embeddings.

    Embeddings and maxout layer have 128 units, states have 256, and dropout is 0.3.
    """
    _preset(
        args,
        encoder_embed_dim=128,
        encoder_hidden_size=256,
        decoder_embed_dim=128,
        decoder_hidden_size=256,
        decoder_out_embed_dim=128,
        dropout=0.3,
        share_all_embeddings=True,
    )


@register_preset("gru_bahdanau", "gru_dot")
def gru_dot(args: Namespace) -> None:
    """Set RNNsearch whose alignment is the dot product of projected keys and queries."""
    _preset(args, attention="dot")


@register_preset("gru_bahdanau", "gru_seq2seq")
def gru_seq2seq(args: Namespace) -> None:
    """Set the sequence-to-sequence model without attention, after Cho et al. (EMNLP 2014).

    The encoder's summary gives the decoder its first state and is the context of each step.  The encoder of Cho et al.
    is unidirectional; here the summary is [forward h_S ; backward h_1].
    """
    _preset(args, attention="none")
