"""What a decoder attends to while it reads a translation, and what gates let through."""

from contextlib import contextmanager
from typing import Any, Callable, ContextManager, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from bert_fused_plugin.models.gru_bahdanau.decoder import GruDecoder
from bert_fused_plugin.modules.fusion import Gate

SOURCE, BERT = "source", "BERT"  # what a decoder attends to


class Attention(NamedTuple):
    """The attention of each decoder layer to the source or to BERT, the lowest layer first.

    Attributes:
        layers: the weights, mean over heads, (B, T, S) or (B, T, L); None for a layer without such attention.
        heads: the weights of each head, (H, B, T, S) or (H, B, T, L).
        sizes: the number of positions that may be attended to, (B).
    """

    layers: List[Optional[Tensor]]
    heads: List[Optional[Tensor]]
    sizes: Tensor


@torch.no_grad()
def read_attention(model: Any, net_input: Dict[str, Any], translations: Sequence[Tensor]) -> Dict[str, Attention]:
    """Return the attention to `SOURCE` and to `BERT`, if any decoder layer has it, while *translations* are read.

    A decoder that does not return its attention, such as fairseq's LSTM, gives an empty result.

    Args:
        model: a model in evaluation mode.
        net_input: the batch.
        translations: ids of each sentence's translation, ending in eos.
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
    for number, option in enumerate(options):
        with _recorded_heads(model) as seen:
            _, extra = decoder(prev_output_tokens, encoder_out=encoder_out, **option)
        found = {kind: (extra.get(name) or [None])[0] for kind, name in ((SOURCE, "attn"), (BERT, "bert_attn"))}
        names = {SOURCE: "encoder_attn", BERT: "encoder_attn" if found[SOURCE] is None else "bert_attn"}
        for kind, attention in result.items():
            weights = found[kind]
            attention.layers.append(weights)
            if weights is not None:
                weights = seen.get(f"layers.{number}.{names[kind]}", weights.unsqueeze(0))
            attention.heads.append(weights)
    return {kind: found for kind, found in result.items() if any(layer is not None for layer in found.layers)}


def previous_tokens(translations: Sequence[Tensor], pad: int) -> Tensor:
    """Return the decoder's input, (B, T), that makes it write *translations*."""
    result: Tensor = collate_tokens(list(translations), pad, left_pad=False, move_eos_to_beginning=True)
    return result


def recorded_gates(model: Any) -> ContextManager[Dict[str, Tensor]]:
    """Record, for each gated layer, g and g^2 of its last pass, mean over dimensions: (2, T, B)."""
    gates = []
    for name, module in model.named_modules():
        if isinstance(module, Gate):
            side, _, number, *_ = name.split(".")  # encoder.layers.0.fusion.mix
            gates.append((f"{side} layer {int(number) + 1}", module))

    def read(gate: Any, inputs: Any, output: Any) -> Tensor:
        g = gate.bert_share(*inputs)
        return torch.stack([g.mean(dim=-1), g.square().mean(dim=-1)])

    return _recorded(gates, read)


def _recorded_heads(model: Any) -> ContextManager[Dict[str, Tensor]]:
    """Record the weights of each head, (H, B, T, S), of the attentions that return them in a pass.

    The keys are the names of the attentions in the decoder, such as ``layers.0.encoder_attn``.
    """
    modules = model.decoder.named_modules()
    attentions = [(name, module) for name, module in modules if name.endswith((".encoder_attn", ".bert_attn"))]
    return _recorded(attentions, lambda module, inputs, output: output[1])


@contextmanager
def _recorded(
    modules: Iterable[Tuple[str, nn.Module]], read: Callable[[Any, Any, Any], Optional[Tensor]]
) -> Iterator[Dict[str, Tensor]]:
    """Yield a dict that gets what *read* returns for the last pass of each of *modules*, by the name given with it.

    *read* gets the module, its inputs and its output.  A pass for which it returns None changes nothing.
    """
    seen: Dict[str, Tensor] = {}

    def hook_of(name: str) -> Callable[[Any, Any, Any], None]:
        def record(module: Any, inputs: Any, output: Any) -> None:
            found = read(module, inputs, output)
            if found is not None:
                seen[name] = found

        return record

    hooks = [module.register_forward_hook(hook_of(name)) for name, module in modules]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
