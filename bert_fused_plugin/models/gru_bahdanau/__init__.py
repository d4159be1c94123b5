"""The recurrent model and its presets: RNNsearch (Bahdanau et al., ICLR 2015), and models with other attentions."""

import logging
from argparse import Namespace
from typing import Any, Dict

from fairseq.models import register_model
from torch import nn

from bert_fused_plugin.bert.from_flags import describe_bert, load_source
from bert_fused_plugin.checkpoints.record import flag_record
from bert_fused_plugin.fairseq_settings import as_namespace, flags_beside, task_settings
from bert_fused_plugin.models.embeddings import load_embeddings
from bert_fused_plugin.models.gru_bahdanau.config import GruConfig, gru_config_errors
from bert_fused_plugin.models.gru_bahdanau.decoder import GruDecoder
from bert_fused_plugin.models.gru_bahdanau.encoder import GruEncoder
from bert_fused_plugin.models.gru_bahdanau.initialisation import initialise
from bert_fused_plugin.models.presets import register_preset
from bert_fused_plugin.models.translation_model import TranslationModel
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
        cfg = cls.config_class.from_namespace(as_namespace(args))
        args.bert_unchecked = False  # fairseq saves it; the checkpoints of this training need no exception
        cfg.share_decoder_input_output_embed |= cfg.share_all_embeddings
        src_dict, tgt_dict = task.source_dictionary, task.target_dictionary
        errors = gru_config_errors(cfg, src_dict, tgt_dict)
        if cfg.attention == "none" and task_settings(task).get("load_alignments"):
            errors.append("--load-alignments: a model without attention learns from no alignments; leave it out")
        source = load_source(cfg, task, errors, flags_beside(args, "bpe"))
        encoder_embed = nn.Embedding(len(src_dict), cfg.encoder_embed_dim, src_dict.pad())
        decoder_embed = encoder_embed
        if not cfg.share_all_embeddings:
            decoder_embed = nn.Embedding(len(tgt_dict), cfg.decoder_embed_dim, tgt_dict.pad())
        encoder = GruEncoder(cfg, src_dict, encoder_embed, source=source)
        bert_dim = None if source is None else source.dim
        decoder = GruDecoder(cfg, tgt_dict, decoder_embed, context_dim=encoder.output_dim, bert_dim=bert_dim)
        model = cls(encoder, decoder)
        model.cfg = cfg
        model.settings_record = flag_record(cfg, task)
        initialise(model, str(cfg.rnn_init))
        load_embeddings(args, cfg, model)
        if source is not None:
            logger.info(f"{describe_bert(model, cfg.bert_model)}; drop-net {cfg.drop_net_rate()}", extra=REPEAT)
        return model


def _sizes(width: int) -> Dict[str, Any]:
    """Return the sizes of a model whose embeddings have the *width*, and states twice the width."""
    widths = dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim"), width)
    return {**widths, "encoder_hidden_size": 2 * width, "decoder_hidden_size": 2 * width}


# RNNsearch as in the paper: embeddings 620, states 1000, maxout 500, and the paper's initialisation
gru_bahdanau = register_preset("gru_bahdanau", "gru_bahdanau", rnn_init="paper")
# for corpora of the size of IWSLT
gru_bahdanau_iwslt_de_en = register_preset("gru_bahdanau", "gru_bahdanau_iwslt_de_en", **_sizes(256), dropout=0.3)
# of the size class of bert_fused_tiny
gru_bahdanau_tiny = register_preset(
    "gru_bahdanau", "gru_bahdanau_tiny", **_sizes(128), dropout=0.3, share_all_embeddings=True
)
# RNNsearch whose alignment is the dot product of projected keys and queries
gru_dot = register_preset("gru_bahdanau", "gru_dot", attention="dot")
# The sequence-to-sequence model without attention, after Cho et al. (EMNLP 2014): the encoder's summary gives the
# decoder its first state and is the context of each step.  The encoder of Cho et al. is unidirectional; here the
# summary is [forward h_S ; backward h_1].
gru_seq2seq = register_preset("gru_bahdanau", "gru_seq2seq", attention="none")
