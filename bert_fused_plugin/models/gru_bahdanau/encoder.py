"""The recurrent encoder, a bidirectional GRU whose states are the annotations (Bahdanau et al. 2015, A.2.1)."""

from typing import Any, Optional, Tuple

import torch
from fairseq.models import FairseqEncoder
from fairseq.modules import FairseqDropout
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bert_fused_plugin.bert.source import BertSource
from bert_fused_plugin.models.gru_bahdanau.config import GruConfig
from bert_fused_plugin.modules.beam_order import EncoderOut, reorder_encoder_out


class GruEncoder(FairseqEncoder):
    """The annotations h_j = [forward h_j ; backward h_j].

    The cell is torch's fused one.  It applies the reset gate after the product, r * (U h), where the paper has
    U (r * h).  A model without BERT has no *source*.
    """

    def __init__(
        self, cfg: GruConfig, dictionary: Any, embed_tokens: nn.Embedding, *, source: Optional[BertSource]
    ) -> None:
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()
        self.max_source_positions = cfg.max_source_positions
        self.embed_tokens = embed_tokens
        self.dropout_module = FairseqDropout(cfg.dropout, module_name=type(self).__name__)
        self.output_dim = 2 * cfg.encoder_hidden_size
        widths = [cfg.encoder_embed_dim] + [self.output_dim] * (cfg.encoder_layers - 1)
        self.layers = nn.ModuleList(
            nn.GRU(width, cfg.encoder_hidden_size, bidirectional=True, batch_first=True) for width in widths
        )
        self.source = source
        if source is not None:
            source.register_in(self)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        bert_tokens: Optional[Tensor] = None,
        bert_out: Optional[Tensor] = None,
    ) -> EncoderOut:
        """Return the annotations, (S, B, 2n), as fairseq's ``encoder_out``; see `TranslationModel.forward`.

        ``final_states``, (B, 2n), are the summary [forward h_S ; backward h_1] of the last layer.  With BERT there are
        ``bert_out``, (B, L, D), and ``bert_padding_mask``, (B, L).
        """
        encoder_out: EncoderOut = {}
        if self.source is not None:
            bert_states, mask = self.source.read(src_tokens, bert_tokens, bert_out, self.embed_tokens.weight.dtype)
            encoder_out = {"bert_out": [bert_states], "bert_padding_mask": [mask]}
        padding_mask = src_tokens.eq(self.padding_idx)
        # a row of padding keeps one position, because a softmax over none is NaN
        padding_mask[:, 0] &= ~padding_mask.all(dim=1)
        x = self.dropout_module(self.embed_tokens(src_tokens))
        # torch can only pack sentences that are padded on the right, so positions of padding come last
        order = torch.sort(padding_mask.long(), dim=1, stable=True).indices.unsqueeze(-1)
        x, final = self._apply_layers(x.take_along_dim(order, dim=1), lengths=(~padding_mask).sum(dim=1))
        x = x.take_along_dim(order.argsort(dim=1), dim=1)
        return {
            **encoder_out,
            "encoder_out": [x.transpose(0, 1)],  # (B, S, 2n) -> (S, B, 2n)
            "encoder_padding_mask": [padding_mask],
            "final_states": [final],
            "beam_size": [1],
            "memories": [],  # what the decoder reads in a search
        }

    def _apply_layers(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        """Return the states, (B, S, 2n), and the summary, (B, 2n), of sentences that are padded on the right."""
        ends = x.new_zeros(2, 0)
        # the longest sentence first; torch would sort in each layer, and wait for a GPU each time
        lengths, order = torch.sort(lengths, descending=True)
        lengths, back = lengths.cpu(), order.argsort()
        for layer in self.layers:
            packed = pack_padded_sequence(x.index_select(0, order), lengths, batch_first=True)
            packed, ends = layer(packed)
            x, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.size(1))
            x = self.dropout_module(x.index_select(0, back))
        return x, torch.cat([ends[0], ends[1]], dim=-1).index_select(0, back)

    reorder_encoder_out = staticmethod(reorder_encoder_out)

    def max_positions(self) -> int:
        """Return the length of the longest source that the model accepts."""
        return self.max_source_positions
