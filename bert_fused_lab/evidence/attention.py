"""What a decoder attends to while it reads a translation, by layers, in statistics and as maps of words."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor

from bert_fused_lab.evidence.words import merge, merge_attention, merged_words, piece_marks
from bert_fused_plugin.models.gru_bahdanau.decoder import GruDecoder

SOURCE, BERT = "source", "BERT"  # what a decoder attends to
TOO_EVEN = 0.95  # a share of the largest entropy; at 20 positions, one may then get a fifth, and the others 1/24 each


class Attention(NamedTuple):
    """The attention of each decoder layer to the source or to BERT, the lowest layer first."""

    layers: List[Optional[Tensor]]  # mean over heads, (B, T, S) or (B, T, L); None for a layer without such attention
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
        kind: Attention([], (~encoder_out[mask][0]).sum(dim=1)) for kind, mask in masks.items() if encoder_out.get(mask)
    }
    for option in options:
        _, extra = decoder(prev_output_tokens, encoder_out=encoder_out, features_only=True, **option)
        for kind, name in ((SOURCE, "attn"), (BERT, "bert_attn")):
            if kind in result:
                result[kind].layers.append((extra.get(name) or [None])[0])
    return {kind: attn for kind, attn in result.items() if any(layer is not None for layer in attn.layers)}


def previous_tokens(translations: Sequence[Tensor], pad: int) -> Tensor:
    """Return the decoder's input, (B, T), that makes it write *translations*."""
    return collate_tokens(list(translations), pad, left_pad=False, move_eos_to_beginning=True)


class Entropy(NamedTuple):
    """The mean entropy of the attention at a target position, in bits, and as a share of the largest possible one."""

    bits: float
    share: float


def attention_statistics(
    model: Any, batches: Iterable[Tuple[Dict[str, Any], Sequence[Tensor]]]
) -> Dict[str, List[Optional[Entropy]]]:
    """Return the entropy of each layer, by kind of attention.

    *model* reads the ``net_input`` and the translations of each of *batches*.  A layer without an attention has None.
    """
    entropies: Dict[str, List[List[Tensor]]] = {}  # by kind and layer: (2, positions), of each batch
    pad = model.decoder.dictionary.pad()
    for net_input, translations in batches:
        written = previous_tokens(translations, pad).ne(pad)
        for kind, attention in read_attention(model, net_input, translations).items():
            for values, layer in zip(entropies.setdefault(kind, [[] for _ in attention.layers]), attention.layers):
                if layer is not None:
                    values.append(_entropies(layer, attention.sizes, written))
    return {
        kind: [Entropy(*_means(values)) if values else None for values in layers] for kind, layers in entropies.items()
    }


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
    return torch.stack([bits, bits / sizes.clamp(min=2).log2().unsqueeze(1)]).cpu()[..., written]


def _means(values: Sequence[Tensor]) -> Any:
    return torch.cat(list(values), dim=-1).double().mean(dim=-1).tolist()


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
    for kind, attention in read_attention(model, net_input, [tokens]).items():
        if kind == BERT:
            bridge = model.encoder.source.bridge
            pieces = bridge.pieces(net_input["bert_tokens"][0].tolist())
            columns = merge(pieces, piece_marks(pieces, from_source), bridge.pieces(bridge.special_tokens))
        else:
            columns = merged_words(task.source_dictionary, net_input["src_tokens"][0], from_source)
        merged, entropies = [], []
        for layer in attention.layers:
            merged.append(None if layer is None else merge_attention(layer[0].float().cpu(), rows, columns))
            entropies.append(None if layer is None else Entropy(*_means([_entropies(layer, attention.sizes, written)])))
        maps.append(AttentionMap(kind, rows.texts, columns.texts, merged, entropies))
    return maps
