"""The recurrent models: RNNsearch (Bahdanau et al., ICLR 2015), dot-product alignment, and no attention."""

import logging
from argparse import ArgumentParser, Namespace
from typing import Any, Dict, Optional, Tuple

from fairseq import utils
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import FairseqEncoderDecoderModel, register_model
from torch import Tensor, nn

from bert_fused_plugin.bert.checkpoint_checks import misfits
from bert_fused_plugin.bert.loading import describe_bert, load_bert
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.models.gru_bahdanau.config import GruConfig, check_gru_config, gru_drop_net_rate
from bert_fused_plugin.models.gru_bahdanau.decoder import Extra, GruDecoder
from bert_fused_plugin.models.gru_bahdanau.encoder import GruEncoder
from bert_fused_plugin.models.presets import as_namespace, register_preset
from bert_fused_plugin.modules.batch_rng import batch_rng
from bert_fused_plugin.modules.recurrent_attention import AdditiveAttention

logger = logging.getLogger(__name__)


@register_model("gru_bahdanau")
class GruModel(FairseqEncoderDecoderModel):
    """A bidirectional GRU encoder, and a GRU decoder that attends to its annotations."""

    encoder: GruEncoder
    decoder: GruDecoder

    config_class = GruConfig

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Declare the flags; their defaults stay in the config, so that presets can set others."""
        gen_parser_from_dataclass(parser, cls.config_class(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "GruModel":
        """Build the model from the flags.

        Raises:
            BertFusedError: settings that break a rule; all of them together.
        """
        cfg = GruConfig.from_namespace(as_namespace(args))
        src_dict, tgt_dict = task.source_dictionary, task.target_dictionary
        errors = check_gru_config(cfg, src_dict, tgt_dict)
        bert, bridge = load_bert(cfg, task, errors) if cfg.bert_model is not None else (None, None)
        raise_all(errors)
        encoder_embed = _embedding(src_dict, cfg.encoder_embed_dim)
        decoder_embed = encoder_embed if cfg.share_all_embeddings else _embedding(tgt_dict, cfg.decoder_embed_dim)
        encoder = GruEncoder(cfg, src_dict, encoder_embed, bert=bert, bridge=bridge)
        bert_dim = None if bert is None else bert.dim
        decoder = GruDecoder(cfg, tgt_dict, decoder_embed, context_dim=encoder.output_dim, bert_dim=bert_dim)
        model = cls(cfg, encoder, decoder)
        initialise(model, str(cfg.rnn_init))
        _load_embedding("--encoder-embed-path", cfg.encoder_embed_path, src_dict, encoder_embed)
        _load_embedding("--decoder-embed-path", cfg.decoder_embed_path, tgt_dict, decoder_embed)
        trained = sum(parameter.numel() for parameter in model.parameters())
        attention = "no" if str(cfg.attention) == "none" else cfg.attention
        logger.info(
            f"GRU: {attention} attention, {trained:,} parameters; encoder {cfg.encoder_layers} x "
            f"2 x {cfg.encoder_hidden_size}, decoder {cfg.decoder_layers} x {cfg.decoder_hidden_size}"
        )
        if bert is not None:
            logger.info(f"{describe_bert(model, cfg.bert_model)}; drop-net {gru_drop_net_rate(cfg)}")
        return model

    def __init__(self, cfg: GruConfig, encoder: GruEncoder, decoder: GruDecoder) -> None:
        super().__init__(encoder, decoder)
        self.cfg = cfg

    def load_state_dict(self, state_dict: Dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        """Load a checkpoint, after a look at what users mix up: dictionaries and BERT models.

        Raises:
            BertFusedError: the checkpoint belongs to other dictionaries or another BERT.
        """
        raise_all(misfits(self, state_dict))
        return super().load_state_dict(state_dict, *args, **kwargs)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
        prev_output_tokens: Tensor,
        bert_tokens: Optional[Tensor] = None,
        bert_out: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Extra]:
        """Return the logits, (B, T, V), and the decoder's ``extra``.

        Args:
            src_tokens: (B, S).
            src_lengths: not used.
            prev_output_tokens: (B, T).
            bert_tokens: BERT's input, (B, L); default: derived from *src_tokens*.
            bert_out: BERT's states for it, (B, L, N x D), from the cache; default: computed.
        """
        with batch_rng(self.training):
            encoder_out = self.encoder(src_tokens, bert_tokens=bert_tokens, bert_out=bert_out)
            out: Tuple[Tensor, Extra] = self.decoder(prev_output_tokens, encoder_out=encoder_out)
        return out


def initialise(model: nn.Module, kind: str) -> None:
    """Give the parameters of *model* their first values.

    ``paper`` (Bahdanau et al. 2015, appendix B.1): recurrent matrices are orthogonal, W_a and U_a are drawn from
    N(0, 0.001^2), v_a and biases are zero, anything else is drawn from N(0, 0.01^2).  ``modern``: recurrent
    matrices orthogonal, biases zero, embeddings and output matrix of norm 1, Xavier for all others.
    """
    for name, parameter in model.named_parameters():
        if name.startswith(("encoder.bert.", "encoder.layer_mix.")):
            continue
        if parameter.dim() == 1:
            if "_norm." not in name:
                nn.init.zeros_(parameter)
        elif "weight_hh" in name or name.endswith(("gate_proj.weight", "candidate_proj.weight")):
            for block in parameter.split(parameter.size(1)):  # one for each gate
                nn.init.orthogonal_(block)
        else:
            _initialise_matrix(name, parameter, kind)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])
        if isinstance(module, AdditiveAttention) and kind == "modern":
            nn.init.normal_(module.v, std=module.v.numel() ** -0.5)


def _initialise_matrix(name: str, parameter: nn.Parameter, kind: str) -> None:
    if kind == "paper":
        nn.init.normal_(parameter, std=0.001 if ".attention." in name else 0.01)
    elif "embed_tokens" in name or "output_projection" in name:
        nn.init.normal_(parameter, std=parameter.size(1) ** -0.5)
    else:
        nn.init.xavier_uniform_(parameter)


def _load_embedding(flag: str, path: Optional[str], dictionary: Any, embedding: nn.Embedding) -> None:
    if path is None:
        return
    try:
        vectors = utils.parse_embedding(path)
    except (OSError, ValueError) as error:
        raise BertFusedError(f"{flag} {path} cannot be read ({error}); give a text file: word, numbers") from error
    widths = {len(vector) for vector in vectors.values()} - {embedding.embedding_dim}
    if widths or not vectors:
        raise BertFusedError(
            f"{flag} {path} must hold a vector of {embedding.embedding_dim} numbers for each word, got "
            f"{sorted(widths)[0] if widths else 'no'} numbers; give another file, or its width as --*-embed-dim"
        )
    utils.load_embedding(vectors, dictionary, embedding)


def _embedding(dictionary: Any, dim: int) -> nn.Embedding:
    return nn.Embedding(len(dictionary), dim, dictionary.pad())


def _preset(args: Namespace, **values: Any) -> None:
    for name, value in values.items():
        vars(args).setdefault(name, value)


@register_preset("gru_bahdanau", "gru_bahdanau")
def gru_bahdanau(args: Namespace) -> None:
    """RNNsearch as in the paper: embeddings 620, states 1000, maxout 500, its initialisation."""
    _preset(args, rnn_init="paper")


@register_preset("gru_bahdanau", "gru_bahdanau_iwslt_de_en")
def gru_bahdanau_iwslt_de_en(args: Namespace) -> None:
    """For corpora of the size of IWSLT: embeddings 256, states 512, maxout 256, dropout 0.3."""
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
    """Of the size class of bert_fused_tiny: embeddings and maxout 128, states 256, dropout 0.3, shared embeddings."""
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
    """RNNsearch with dot-product alignment of projected keys and queries."""
    _preset(args, attention="dot")


@register_preset("gru_bahdanau", "gru_seq2seq")
def gru_seq2seq(args: Namespace) -> None:
    """The plain sequence-to-sequence model: the encoder's summary starts the decoder and feeds each step.

    Cho et al. (EMNLP 2014), whose encoder is unidirectional; the summary here is [forward h_S ; backward h_1].
    """
    _preset(args, attention="none")
