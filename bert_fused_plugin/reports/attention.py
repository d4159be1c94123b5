"""What a decoder attends to while it reads a translation, by layers, in statistics and as maps of words."""

from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    ContextManager,
    DefaultDict,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from bert_fused_plugin.models.gru_bahdanau.decoder import GruDecoder
from bert_fused_plugin.modules.fusion import Gate
from bert_fused_plugin.reports.words import merge, merge_attention, merged_words, piece_marks

SOURCE, BERT = "source", "BERT"  # what a decoder attends to
TOO_EVEN = 0.95  # a share of the largest entropy; at 20 positions, one may then get a fifth, and the others 1/24 each


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


class Entropy(NamedTuple):
    """The mean entropy of the attention at a target position, in bits, and as a share of the largest possible one."""

    bits: float
    share: float


class Sparsity(NamedTuple):
    """The means over target positions, for each head of a layer."""

    zeros: List[float]  # the share of the symbols that may be attended to whose weight is exactly zero
    attended: List[float]  # the number of symbols whose weight is not zero


class AttentionStatistics:
    """The statistics of the batches that were added; a layer without an attention has None in the place of them."""

    def __init__(self) -> None:
        self._depths: Dict[str, int] = {}  # numbers of layers, by kind of attention
        self._values: DefaultDict[Tuple[Any, ...], List[Tensor]] = defaultdict(list)  # (..., positions), of each batch

    def add(self, model: Any, net_input: Dict[str, Any], translations: Sequence[Tensor]) -> None:
        """Add a batch and its *translations*, which *model* reads."""
        with recorded_gates(model) as gates:
            read = read_attention(model, net_input, translations)
        pad = model.decoder.dictionary.pad()
        written, kept = previous_tokens(translations, pad).ne(pad), net_input["src_tokens"].ne(pad)
        for kind, found in read.items():
            self._depths[kind] = len(found.layers)
            for number, (layer, heads) in enumerate(zip(found.layers, found.heads)):
                if layer is not None and heads is not None:
                    self._values["entropy", kind, number].append(_entropies(layer, found.sizes, written))
                    self._values["sparsity", kind, number].append(_sparsity(heads, found.sizes, written))
        for name, gate in gates.items():
            self._values["gate", name].append(_at(gate, (kept if name.startswith("encoder") else written).t()))

    def entropies(self) -> Dict[str, List[Optional[Entropy]]]:
        """Return the entropy of each layer, by kind of attention."""
        return {kind: self._layers("entropy", kind, Entropy) for kind in self._depths}

    def sparsity(self) -> Dict[str, List[Optional[Sparsity]]]:
        """Return the sparsity of each layer, by kind of attention."""
        return {kind: self._layers("sparsity", kind, Sparsity) for kind in self._depths}

    def gates(self) -> Dict[str, Dict[str, float]]:
        """Return mean and standard deviation of g, BERT's share, of each gated layer."""
        means = {name: _means(values) for (what, name, *_), values in self._values.items() if what == "gate"}
        return {
            name: {"mean": mean, "deviation": max(0.0, square - mean**2) ** 0.5}
            for name, (mean, square) in means.items()
        }

    def _layers(self, what: str, kind: str, made_of: Callable[..., Any]) -> List[Any]:
        keys = [(what, kind, number) for number in range(self._depths.get(kind, 0))]
        return [made_of(*_means(self._values[key])) if key in self._values else None for key in keys]


def entropy(weights: Tensor) -> Tensor:
    """Return the entropy of *weights*, (..., S), in bits."""
    return torch.special.entr(weights.float()).sum(dim=-1) / torch.log(torch.tensor(2.0))


def evenness(kind: str, layers: Sequence[Optional[Entropy]]) -> Optional[str]:
    """Return a warning if the entropies of some *layers* are near the largest possible; None if they are not."""
    even = {number: layer.share for number, layer in enumerate(layers, 1) if layer and layer.share >= TOO_EVEN}
    if not even:
        return None
    where = f" in decoder layer{'s' * (len(even) > 1)} {', '.join(map(str, even))}" if len(layers) > 1 else ""
    return (
        f"The attention to {'the source' if kind == SOURCE else 'BERT'}{where} is so even that its maps and alignments "
        f"mean nothing: its entropy is {min(even.values()):.0%} of the largest possible, and {TOO_EVEN:.0%} or more "
        "says that all positions get nearly the same."
    )


def _entropies(weights: Tensor, sizes: Tensor, written: Tensor) -> Tensor:
    """Return the entropies at all *written* positions, (B, T), and these as shares: (2, positions).

    *weights*, (B, T, S), are the means of the heads; *sizes*, (B), the numbers of symbols that may be attended to.
    """
    bits = entropy(weights)
    return _at(torch.stack([bits, bits / sizes.clamp(min=2).log2().unsqueeze(1)]), written)


def _sparsity(weights: Tensor, sizes: Tensor, written: Tensor) -> Tensor:
    """Return, for all *written* positions, what `Sparsity` has the means of: (2, H, positions).

    *weights* are those of each head, (H, B, T, S); for the other arguments see `_entropies`.
    """
    attended = weights.gt(0).sum(dim=-1).float()
    return _at(torch.stack([1 - attended / sizes.clamp(min=1).view(1, -1, 1), attended]), written)


def _at(values: Tensor, mask: Tensor) -> Tensor:
    return values.cpu()[..., mask.cpu()]


def _means(values: Sequence[Tensor]) -> List[Any]:
    means: List[Any] = torch.cat(list(values), dim=-1).double().mean(dim=-1).tolist()
    return means


@dataclass
class AttentionMap:
    """The attention of one translation to the source or to BERT."""

    kind: str  # `SOURCE` or `BERT`
    rows: List[str]  # target words
    columns: List[str]  # source words
    layers: List[Optional[Tensor]]  # (T, S) each, the lowest layer first; None for a layer without such attention
    entropies: List[Optional[Entropy]]  # of each layer, between symbols and not words

    def last(self) -> int:
        """Return the number, from 0, of the last layer with such attention."""
        return max(number for number, layer in enumerate(self.layers) if layer is not None)

    def figures(self, shown: Callable[[str], str]) -> Dict[str, Any]:
        """Return what the page and the JSON show of it; *shown* makes words as people write them."""
        return {
            "kind": self.kind,
            "rows": [*map(shown, self.rows)],
            "columns": [*map(shown, self.columns)],
            "percent": [None if layer is None else (100 * layer).round().int().tolist() for layer in self.layers],
            "too_even": [evenness(self.kind, [layer]) for layer in self.entropies],
            "alignment": self.pharaoh(self.last()) if self.kind == SOURCE else None,
        }

    def pharaoh(self, layer: int) -> str:
        """Return the alignment ``source-target ...``: each target word with the source word that it attends to most.

        The end of sentence, which is last on both sides, is not aligned.
        """
        weights = self.layers[layer]
        if weights is None or weights[:-1, :-1].numel() == 0:
            return ""
        return " ".join(f"{source}-{target}" for target, source in enumerate(weights[:-1, :-1].argmax(dim=1).tolist()))


def attention_maps(
    model: Any, task: Any, sample: Dict[str, Any], tokens: Tensor, subwords: Tuple[str, str]
) -> List[AttentionMap]:
    """Return what the translation *tokens*, (T,), of the one sentence in *sample* attends to, by words.

    *subwords* are the marks of the source and the target dictionary, as for `merge`; BERT's pieces follow those of the
    source, as for `piece_marks`.
    """
    net_input = sample["net_input"]
    from_source, from_target = subwords
    rows = merged_words(task.target_dictionary, tokens, from_target)
    written = torch.ones(1, len(tokens), dtype=torch.bool)
    maps = []
    for kind, found in read_attention(model, net_input, [tokens]).items():
        if kind == BERT:
            bridge = model.encoder.bridge
            pieces = bridge.pieces(net_input["bert_tokens"][0].tolist())
            columns = merge(pieces, piece_marks(pieces, from_source), bridge.pieces(bridge.special_tokens))
        else:
            columns = merged_words(task.source_dictionary, net_input["src_tokens"][0], from_source)
        merged, entropies = [], []
        for layer in found.layers:
            merged.append(None if layer is None else merge_attention(layer[0].float().cpu(), rows, columns))
            entropies.append(None if layer is None else Entropy(*_means([_entropies(layer, found.sizes, written)])))
        maps.append(AttentionMap(kind, rows.texts, columns.texts, merged, entropies))
    return maps
