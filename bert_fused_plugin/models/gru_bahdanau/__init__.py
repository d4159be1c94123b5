"""The recurrent model and its presets: RNNsearch (Bahdanau et al., ICLR 2015), and models with other attentions."""

import logging
from argparse import Namespace
from typing import Any, Optional, Tuple

from fairseq.models import register_model
from torch import Tensor

from bert_fused_plugin.bert.from_flags import describe_bert, load_bert
from bert_fused_plugin.errors import raise_all
from bert_fused_plugin.models.embeddings import build_embedding, load_embedding
from bert_fused_plugin.models.gru_bahdanau.config import GruConfig, gru_config_errors, gru_task_reasons
from bert_fused_plugin.models.gru_bahdanau.decoder import Extra, GruDecoder
from bert_fused_plugin.models.gru_bahdanau.encoder import GruEncoder
from bert_fused_plugin.models.gru_bahdanau.initialisation import initialise
from bert_fused_plugin.models.presets import flags_beside, register_preset, sharding_errors
from bert_fused_plugin.models.recorded_flags import FlagRecord
from bert_fused_plugin.models.translation_model import TranslationModel, task_flag_errors
from bert_fused_plugin.modules.drop_net import batch_rng
from bert_fused_plugin.setup_messages import REPEAT

logger = logging.getLogger(__name__)


@register_model("gru_bahdanau")
class GruModel(TranslationModel):
    """A bidirectional GRU encoder, and a GRU decoder that attends to its annotations."""

    encoder: GruEncoder
    decoder: GruDecoder
    config_class = GruConfig

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "GruModel":
        """Build the model from the flags.

        Raises:
            BertFusedError: some settings break a rule; the error lists all of them.
        """
        cfg: GruConfig = cls.read_config(args, task)
        src_dict, tgt_dict = task.source_dictionary, task.target_dictionary
        errors = [*gru_config_errors(cfg, src_dict, tgt_dict), *task_flag_errors(task, gru_task_reasons(cfg))]
        errors += sharding_errors(args)
        bert, bridge = None, None
        if cfg.bert_model is not None:
            bert, bridge = load_bert(cfg, task, errors, flags_beside(args, "bpe"))
        raise_all(errors)
        encoder_embed = build_embedding(src_dict, cfg.encoder_embed_dim)
        decoder_embed = encoder_embed if cfg.share_all_embeddings else build_embedding(tgt_dict, cfg.decoder_embed_dim)
        encoder = GruEncoder(cfg, src_dict, encoder_embed, bert=bert, bridge=bridge)
        bert_dim = None if bert is None else bert.dim
        decoder = GruDecoder(cfg, tgt_dict, decoder_embed, context_dim=encoder.output_dim, bert_dim=bert_dim)
        model = cls(cfg, encoder, decoder)
        model.settings_record = FlagRecord(cfg, task)
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
            line = f"{describe_bert(model, cfg.bert_model)}; drop-net {cfg.drop_net_rate()}"
            logger.info(line, extra=REPEAT)
        return model

    def __init__(self, cfg: GruConfig, encoder: GruEncoder, decoder: GruDecoder) -> None:
        super().__init__(encoder, decoder)
        self.cfg = cfg

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
