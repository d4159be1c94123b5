"""All that a model reads of BERT: its tokens, its states and their padding, and the record of what they come from."""

import hashlib
import re
from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.bert.flags import BertFlags
from bert_fused_plugin.bert.layer_choice import build_layer_mix
from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.checkpoints.record import BertRecord, configuration
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD, DictionaryBridge
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.flags import Record, recorded


class BertSource:
    """BERT as a model reads it.

    This is no module: in checkpoints BERT, its record and the layer mix are modules of the encoder (`register_in`).
    *bert* is frozen, or it trains with the model.  The *bridge* makes BERT's tokens, also for the data sets.
    """

    def __init__(self, bert: PretrainedBert, bridge: DictionaryBridge, cfg: BertFlags) -> None:
        self.bert, self.bridge = bert, bridge
        self.dim = bert.dim  # D
        self.record = _record(bert, bridge, cfg)
        self.layer_mix = build_layer_mix(cfg.bert_layer, len(bert.layers))
        self._masks_special_tokens = cfg.bert_mask_special_tokens

    def register_in(self, encoder: nn.Module) -> None:
        """Register the modules in *encoder* under the names that they have in checkpoints."""
        for name, module in (("bert", self.bert), ("bert_record", self.record), ("layer_mix", self.layer_mix)):
            encoder.register_module(name, module)

    def read(
        self, src_tokens: Tensor, bert_tokens: Optional[Tensor], bert_out: Optional[Tensor], dtype: torch.dtype
    ) -> Tuple[Tensor, Tensor]:
        """Return H_B = BERT(x), (B, L, D), in *dtype*, and its padding mask, (B, L).

        Args:
            src_tokens: source tokens, (B, S).
            bert_tokens: BERT's input, (B, L); None: derived from *src_tokens*.
            bert_out: BERT's states for *bert_tokens*, (B, L, N x D), from the cache; None: computed.
            dtype: number format of the model.

        Raises:
            BertFusedError: As of `tokens`, or half precision cannot hold the states.
        """
        bert_tokens = self.tokens(src_tokens, bert_tokens)
        bert_out = self.states(bert_tokens, bert_out).to(dtype)
        # under --amp the parameters are in single precision, and CUDA's autocast makes the states half precision later
        if dtype == torch.float16 or torch.is_autocast_enabled():
            self.bert.check_half_range(bert_out)
        if self.layer_mix is not None:
            bert_out = self.layer_mix(bert_out.unflatten(-1, (-1, self.dim)))
        return bert_out.contiguous(), self.padding_mask(bert_tokens)  # or each layer would copy the states

    def with_states(self, net_input: Dict[str, Any]) -> Dict[str, Any]:
        """Return *net_input* with the tokens and states of a frozen BERT, so that all who read the batch share them."""
        if self.bert.saves_weights:  # it is read by its model, in the mode and without the graph that fairseq sets
            return net_input
        bert_tokens = self.tokens(net_input["src_tokens"], net_input.get("bert_tokens"))
        bert_out = self.states(bert_tokens, net_input.get("bert_out"))
        return {**net_input, "bert_tokens": bert_tokens, "bert_out": bert_out}

    def tokens(self, src_tokens: Tensor, bert_tokens: Optional[Tensor] = None) -> Tensor:
        """Return BERT's input, (B, L): the *bert_tokens* of the batch, or tokens derived from *src_tokens*, (B, S).

        Raises:
            BertFusedError: The batch does not have the context that BERT must read.
        """
        if bert_tokens is not None:
            return bert_tokens
        if self.bridge.context:
            context = f"--bert-context {self.bridge.context}"
            raise BertFusedError(f"{context} needs the previous sentences; use --task bert_fused_translation")
        return self.bridge.bert_tokens(src_tokens)

    def states(self, bert_tokens: Tensor, bert_out: Optional[Tensor] = None) -> Tensor:
        """Return the states of the N layers, (B, L, N x D): *bert_out*, from the cache, or those of *bert_tokens*."""
        return self.bert(bert_tokens, self.bridge.segments(bert_tokens)) if bert_out is None else bert_out

    def padding_mask(self, bert_tokens: Tensor) -> Tensor:
        """Return the positions of *bert_tokens*, (B, L), to which no layer attends, (B, L)."""
        mask = bert_tokens.eq(BERT_PAD)
        if self._masks_special_tokens:
            for special in self.bridge.special_tokens:  # two or three; a tensor of them would be a copy to the device
                mask = mask | bert_tokens.eq(special)
            mask[:, 0] &= ~mask.all(dim=1)  # an empty sentence keeps its first one
        return mask


def source_of(model: Any) -> Optional[BertSource]:
    """Return the source of *model*, which may be any model of fairseq, in wrappers; None if it does not read BERT."""
    return model.encoder.source if hasattr(model, "encoder") and hasattr(model.encoder, "source") else None


def _record(bert: PretrainedBert, bridge: DictionaryBridge, cfg: BertFlags) -> BertRecord:
    config = {**bert.model.config.to_dict(), "num_hidden_layers": bert.depth}  # which some have under another name
    return BertRecord(
        {
            "name": bert.name,
            "weights_in_layers": None if bert.saves_weights else weights_fingerprint(bert),
            "configuration": configuration(config),
            "states": None if bert.saves_weights else bert.probe(),
            "tokenizer": bridge.tokenizer_fingerprint(),
            "settings": {
                **recorded(cfg, Record.BERT),
                # what these flags stand for with this BERT and this dictionary
                "bert_layer": ",".join(map(str, bert.layers)),
                "bert_subword": bridge.subword,
                "bert_detok": bridge.detok,
                "bert_strip_tags": ",".join(bridge.tags) or None,
                **({} if bridge.bpe is None else {"bpe": bridge.bpe}),
            },
            "given": [],
            "began_from": [],
        }
    )


def weights_fingerprint(bert: PretrainedBert) -> str:
    """Return a hash of the values of all parameters of *bert*, and of the layers that they are in."""
    parts, weights = [], bert.weights()
    for name, _ in bert.model.named_parameters():  # names differ between versions of transformers, but not numbers
        digest = hashlib.sha256(str(tuple(weights[name].shape)).encode())
        digest.update(weights[name].detach().cpu().float().contiguous().numpy().data)
        parts.append(",".join(re.findall(r"\d+", name)).encode() + b":" + digest.digest())
    return hashlib.sha256(b"".join(sorted(parts))).hexdigest()[:32]
