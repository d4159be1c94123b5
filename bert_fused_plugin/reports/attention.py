"""What a decoder attends to while it reads a translation, and what gates let through."""

from contextlib import ExitStack, contextmanager
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Sequence

import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from bert_fused_plugin.models.gru_bahdanau.decoder import GruDecoder
from bert_fused_plugin.modules.fusion import Gate

SOURCE, BERT = "source", "BERT"  # what a decoder attends to


class Attention(NamedTuple):
    """The attention of each decoder layer to the source or to BERT, the lowest layer first."""

    layers: List[Optional[Tensor]]  # mean over heads, (B, T, S) or (B, T, L); None for a layer without such attention
    heads: List[Optional[Tensor]]  # of each head, (H, B, T, S) or (H, B, T, L)
    sizes: Tensor  # the number of positions that may be attended to, (B)


@torch.no_grad()
def read_attention(model: Any, net_input: Dict[str, Any], translations: Sequence[Tensor]) -> Dict[str, Attention]:
    """Return the attention to `SOURCE` and to `BERT`, if any decoder layer has it, while *translations* are read.

    The *model* is in evaluation mode, and each translation ends in eos.  A decoder that does not return its attention,
    such as fairseq's LSTM, gives an empty result.
    """
    decoder = model.decoder
    if isinstance(decoder, TransformerDecoderBase):
        options = [{"alignment_layer": layer} for layer in range(decoder.num_layers)]
    elif isinstance(decoder, GruDecoder):
        options = [{}]
    else:
        return {}
    encoder_out = model.encoder.forward_torchscript(net_input)
    prev_output_tokens = previous_tokens(translations, decoder.dictionary.pad()).to(net_input["src_tokens"].device)
    masks = {SOURCE: "encoder_padding_mask", BERT: "bert_padding_mask"}
    result = {
        kind: Attention([], [], (~encoder_out[mask][0]).sum(dim=1))
        for kind, mask in masks.items()
        if encoder_out.get(mask)
    }
    attentions = {n: module for n, module in decoder.named_modules() if n.endswith((".encoder_attn", ".bert_attn"))}
    for number, option in enumerate(options):
        with _recorded(attentions, lambda module, inputs, output: output[1]) as heads:
            _, extra = decoder(prev_output_tokens, encoder_out=encoder_out, **option)
        found = {kind: (extra.get(name) or [None])[0] for kind, name in ((SOURCE, "attn"), (BERT, "bert_attn"))}
        names = {SOURCE: "encoder_attn", BERT: "encoder_attn" if found[SOURCE] is None else "bert_attn"}
        for kind, attention in result.items():
            weights = found[kind]
            attention.layers.append(weights)
            if weights is not None:
                weights = heads.get(f"layers.{number}.{names[kind]}", weights.unsqueeze(0))
            attention.heads.append(weights)
    return {kind: found for kind, found in result.items() if any(layer is not None for layer in found.layers)}


def previous_tokens(translations: Sequence[Tensor], pad: int) -> Tensor:
    """Return the decoder's input, (B, T), that makes it write *translations*."""
    result: Tensor = collate_tokens(list(translations), pad, left_pad=False, move_eos_to_beginning=True)
    return result


def recorded_gates(model: Any) -> ContextManager[Dict[str, Any]]:
    """Record, for each gated layer, g and g^2 of its last pass, mean over dimensions: (2, T, B)."""

    def read(gate: Any, inputs: Any, output: Any) -> Tensor:
        g = gate.bert_share(*inputs)
        return torch.stack([g.mean(dim=-1), g.square().mean(dim=-1)])

    gates: Dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        if isinstance(module, Gate):
            side, _, number, *_ = name.split(".")  # encoder.layers.0.fusion.mix
            gates[f"{side} layer {int(number) + 1}"] = module
    return _recorded(gates, read)


@contextmanager
def _recorded(modules: Dict[str, nn.Module], read: Callable[[Any, Any, Any], Any]) -> Iterator[Dict[str, Any]]:
    """Yield a dict that gets what *read* makes of module, inputs and output of the last pass of each of *modules*."""
    seen: Dict[str, Any] = {}
    with ExitStack() as hooks:
        for name, module in modules.items():
            hook = module.register_forward_hook(lambda *of_pass, name=name: seen.update({name: read(*of_pass)}))
            hooks.enter_context(hook)
        yield seen
