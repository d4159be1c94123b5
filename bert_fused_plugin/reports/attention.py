"""What translations attend to: the weights of each decoder layer between words, their entropy, alignments, gates."""

from dataclasses import dataclass
from typing import Any, ContextManager, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor

from bert_fused_plugin.models.gru_bahdanau.decoder import GruDecoder
from bert_fused_plugin.modules.fusion import Gate
from bert_fused_plugin.reports.recording import recorded
from bert_fused_plugin.reports.sparsity import Sparsity, mean_sparsity, recorded_heads, sparsity_sums, word_sums
from bert_fused_plugin.reports.words import Words, merge, merge_attention, piece_marks

SOURCE, BERT = "source", "BERT"  # what a decoder attends to
TOO_EVEN = 0.95  # a share of the largest entropy; at 20 positions, one may then get a fifth, and the others 1/24 each


@dataclass
class AttentionMap:
    """The attention of one translation to the source or to BERT.

    Args:
        kind: `SOURCE` or `BERT`.
        rows: target words.
        columns: source words.
        layers: weights of each decoder layer, (T, S), the lowest layer first; None for a layer without such attention.
        entropies: the entropy of each layer, between symbols and not words.
    """

    kind: str
    rows: List[str]
    columns: List[str]
    layers: List[Optional[Tensor]]
    entropies: List[Optional["Entropy"]]

    def last(self) -> int:
        """Return the number, from 0, of the last layer with such attention."""
        return max(number for number, layer in enumerate(self.layers) if layer is not None)

    def pharaoh(self, layer: int) -> str:
        """Return the alignment ``source-target ...``: each target word with the source word that it attends to most.

        The end of sentence, which is last on both sides, is not aligned.
        """
        weights = self.layers[layer]
        if weights is None or weights[:-1, :-1].numel() == 0:
            return ""
        weights = weights[:-1, :-1]
        return " ".join(f"{source}-{target}" for target, source in enumerate(weights.argmax(dim=1).tolist()))


class Entropy(NamedTuple):
    """The mean entropy of the attention at a target position, in bits, and as a share of the largest possible one."""

    bits: float
    share: float

    def is_too_even(self) -> bool:
        """Say whether the attention is so even that its largest weight means nothing."""
        return self.share >= TOO_EVEN


def evenness(kind: str, layers: Sequence[Optional[Entropy]]) -> Optional[str]:
    """Return a warning if the entropies of some *layers* are near the largest possible; None if they are not."""
    even = [number for number, layer in enumerate(layers, 1) if layer is not None and layer.is_too_even()]
    if not even:
        return None
    where = f" in decoder layer{'s' * (len(even) > 1)} {', '.join(map(str, even))}" if len(layers) > 1 else ""
    share = min(layer.share for layer in layers if layer is not None and layer.is_too_even())
    return (
        f"The attention to {'the source' if kind == SOURCE else 'BERT'}{where} is so even that its maps and alignments "
        f"mean nothing: its entropy is {share:.0%} of the largest possible, and {TOO_EVEN:.0%} or more says that all "
        "positions get nearly the same."
    )


def attention_maps(
    model: Any, task: Any, sample: Dict[str, Any], tokens: Tensor, subwords: Tuple[str, str]
) -> List[AttentionMap]:
    """Return what one translation attends to, by words.

    Args:
        model: any transformer or recurrent model of this package, or fairseq's transformer.
        task: the model's task.
        sample: the batch of the one sentence.
        tokens: ids of the translation, (T,), ending in eos.
        subwords: subword marks of the source and the target dictionary, as for `merge`; BERT's pieces follow those of
            the source, as for `piece_marks`.
    """
    net_input = sample["net_input"]
    from_source, from_target = subwords
    rows = merged_words(task.target_dictionary, tokens, from_target)
    maps = []
    written = torch.ones(1, len(tokens), dtype=torch.bool)
    for kind, found in _read(model, net_input, [tokens]).items():
        if kind == BERT:
            pieces = model.encoder.bridge.pieces(net_input["bert_tokens"][0].tolist())
            special = model.encoder.bridge.pieces(model.encoder.bridge.special_tokens)
            columns = merge(pieces, piece_marks(pieces, from_source), special)
        else:
            columns = merged_words(task.source_dictionary, net_input["src_tokens"][0], from_source)
        merged, entropies = [], []
        for layer in found.layers:
            merged.append(None if layer is None else merge_attention(layer[0].float().cpu(), rows, columns))
            entropies.append(None if layer is None else _mean_entropy(_entropy_sums(layer, found.sizes, written)))
        maps.append(AttentionMap(kind, rows.texts, columns.texts, merged, entropies))
    return maps


class _Attention(NamedTuple):
    layers: List[Optional[Tensor]]
    heads: List[Optional[Tensor]]  # (H, B, T, S) each
    sizes: Tensor  # the number of positions that may be attended to, (B)


def read_attention(
    model: Any, net_input: Dict[str, Any], translations: Sequence[Tensor]
) -> Dict[str, List[Optional[Tensor]]]:
    """Return the attention of each decoder layer, mean over heads, while it reads *translations*.

    A decoder that does not return its attention, such as fairseq's LSTM, gives an empty result.

    Args:
        model: a model in evaluation mode.
        net_input: the batch.
        translations: ids of each sentence's translation, ending in eos.

    Returns:
        For `SOURCE` and `BERT`, if any layer attends to it: the attention of each layer, (B, T, S) or (B, T, L), or
        None for a layer without such attention.
    """
    return {kind: found.layers for kind, found in _read(model, net_input, translations).items()}


@torch.no_grad()
def _read(model: Any, net_input: Dict[str, Any], translations: Sequence[Tensor]) -> Dict[str, _Attention]:
    decoder = model.decoder
    if isinstance(decoder, TransformerDecoderBase):
        options = [{"alignment_layer": layer} for layer in range(decoder.num_layers)]
    elif isinstance(decoder, GruDecoder):
        options = [{}]
    else:
        return {}
    encoder_out = model.encoder.forward_torchscript(net_input)
    prev_output_tokens = previous_tokens(translations, decoder.dictionary.pad()).to(net_input["src_tokens"].device)
    layers: Dict[str, List[Optional[Tensor]]] = {SOURCE: [], BERT: []}
    heads: Dict[str, List[Optional[Tensor]]] = {SOURCE: [], BERT: []}
    for number, option in enumerate(options):
        with recorded_heads(model) as seen:
            _, extra = decoder(prev_output_tokens, encoder_out=encoder_out, **option)
        found = {kind: (extra.get(name) or [None])[0] for kind, name in ((SOURCE, "attn"), (BERT, "bert_attn"))}
        names = {SOURCE: "encoder_attn", BERT: "encoder_attn" if found[SOURCE] is None else "bert_attn"}
        for kind, weights in found.items():
            layers[kind].append(weights)
            one_head = None if weights is None else weights.unsqueeze(0)
            heads[kind].append(one_head if weights is None else seen.get(f"layers.{number}.{names[kind]}", one_head))
    masks = {SOURCE: "encoder_padding_mask", BERT: "bert_padding_mask"}
    return {
        kind: _Attention(layers[kind], heads[kind], (~encoder_out[mask][0]).sum(dim=1))
        for kind, mask in masks.items()
        if any(layer is not None for layer in layers[kind])
    }


def previous_tokens(translations: Sequence[Tensor], pad: int) -> Tensor:
    """Return the decoder's input, (B, T), that makes it write *translations*."""
    result: Tensor = collate_tokens(list(translations), pad, left_pad=False, move_eos_to_beginning=True)
    return result


class AttentionStatistics:
    """Entropy and sparsity of attention, and the values of gates: means over all positions of any number of batches."""

    def __init__(self) -> None:
        self._entropy: Dict[str, List[Optional[Tensor]]] = {}
        self._sparsity: Dict[str, List[Optional[Tensor]]] = {}
        self._words: Optional[List[Optional[Tensor]]] = None
        self._gates: Dict[str, Tensor] = {}

    def add(
        self,
        model: Any,
        net_input: Dict[str, Any],
        translations: Sequence[Tensor],
        sources: Optional[Sequence[Words]] = None,
    ) -> None:
        """Add a batch and its *translations*, which *model* reads; *sources* are the words of each source."""
        with recorded_gates(model) as gates:
            read = _read(model, net_input, translations)
        pad = model.decoder.dictionary.pad()
        written = previous_tokens(translations, pad).ne(pad)
        src_tokens = net_input["src_tokens"]
        for kind, found in read.items():
            sums = self._entropy.setdefault(kind, [None if x is None else torch.zeros(3) for x in found.layers])
            for total, layer in zip(sums, found.layers):
                if total is not None and layer is not None:
                    total += _entropy_sums(layer, found.sizes, written)
            added = [None if x is None else sparsity_sums(x, found.sizes, written) for x in found.heads]
            self._sparsity[kind] = _added(self._sparsity.get(kind), added)
            if kind == SOURCE and sources is not None:
                kept = src_tokens.ne(pad)
                counts = [None if x is None else word_sums(x, kept, written, sources) for x in found.layers]
                self._words = _added(self._words, counts)
        for name, gate in gates.items():
            mask = (src_tokens.ne(pad) if name.startswith("encoder") else written).t()
            self._gates[name] = self._gates.get(name, torch.zeros(3)) + torch.stack(
                [_masked_sum(x, mask) for x in (gate[0], gate[1], torch.ones_like(gate[0]))]
            )

    def entropies(self) -> Dict[str, List[Optional[Entropy]]]:
        """Return the entropy of each layer for `SOURCE` and `BERT`; None for a layer without such attention."""
        return {
            kind: [None if total is None else _mean_entropy(total) for total in layers]
            for kind, layers in self._entropy.items()
        }

    def sparsity(self) -> Dict[str, List[Optional[Sparsity]]]:
        """Return the sparsity of each layer for `SOURCE` and `BERT`; None for a layer without such attention."""
        return {
            kind: [None if total is None else mean_sparsity(total) for total in layers]
            for kind, layers in self._sparsity.items()
        }

    def attended_words(self) -> List[Optional[float]]:
        """Return the mean number of source words with a weight at a target position, for each layer."""
        return [None if total is None else float(total[0] / total[1]) for total in self._words or []]

    def gates(self) -> Dict[str, Dict[str, float]]:
        """Return mean and standard deviation of g, BERT's share, of each gated layer."""
        result = {}
        for name, total in self._gates.items():
            mean, square = (total[:2] / total[2]).tolist()
            result[name] = {"mean": mean, "deviation": max(0.0, square - mean**2) ** 0.5}
        return result


def entropy(weights: Tensor) -> Tensor:
    """Return the entropy of *weights*, (..., S), in bits."""
    return torch.special.entr(weights.float()).sum(dim=-1) / torch.log(torch.tensor(2.0))


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

    return recorded(gates, read)


def _entropy_sums(weights: Tensor, sizes: Tensor, written: Tensor) -> Tensor:
    """Return the sums over all *written* positions of their entropies, of these as shares, and of ones, (3,)."""
    bits, most = entropy(weights), sizes.clamp(min=2).log2().unsqueeze(1)
    return torch.stack([_masked_sum(x, written) for x in (bits, bits / most, torch.ones_like(bits))])


def _added(sums: Optional[List[Optional[Tensor]]], more: List[Optional[Tensor]]) -> List[Optional[Tensor]]:
    """Return the sums over two batches of each layer."""
    return [x if y is None or x is None else x + y for x, y in zip(more, sums or [None] * len(more))]


def _mean_entropy(sums: Tensor) -> Entropy:
    return Entropy(*(sums[:2] / sums[2]).tolist())


def _masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    return values.float().cpu().masked_fill(~mask.cpu(), 0).sum()


def merged_words(dictionary: Any, tokens: Tensor, subwords: str) -> Words:
    """Return the words of a sentence from its ids, without padding."""
    symbols = [dictionary[token] for token in tokens.tolist() if token != dictionary.pad()]
    return merge(symbols, subwords, {dictionary[dictionary.eos()], dictionary[dictionary.unk()]})
