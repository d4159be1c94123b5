"""The attention of one translation between words, as the report and ``bert-fused-attention`` draw it."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from bert_fused_plugin.reports.attention import BERT, SOURCE, read_attention
from bert_fused_plugin.reports.attention_statistics import Entropy, evenness, mean_entropy
from bert_fused_plugin.reports.words import merge, merge_attention, merged_words, piece_marks


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

    def figures(self) -> Dict[str, Any]:
        """Return what the page and the JSON show of it."""
        return {
            "kind": self.kind,
            "rows": self.rows,
            "columns": self.columns,
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
            entropies.append(None if layer is None else mean_entropy(layer, found.sizes, written))
        maps.append(AttentionMap(kind, rows.texts, columns.texts, merged, entropies))
    return maps
