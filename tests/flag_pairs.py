"""Flags with values, and groups of them in which each pair comes together at least once."""

from itertools import combinations
from random import Random
from typing import Dict, FrozenSet, List, Optional, Sequence, Set, Tuple

Flag = str  # flags and values that belong together, as one line; {case} is a new folder, {text} a raw one
Pair = FrozenSet[Flag]

OF_BERT = """
--bert-layer 1
--bert-layer mix
--bert-layer random:2
--bert-layer 0
--bert-subword none
--bert-strip-tags play@@
--bert-detok moses
--bert-max-tokens 5
--bert-context 2
--bert-mask-special-tokens
--bert-branch-weights 0.3,0.9
--bert-drop-net 0.5
--bert-drop-net 0
--bert-finetune
--bert-finetune --bert-finetune-layers 1
--bert-finetune --bert-lr-factor 2
--bert-unchecked
--bert-text {text}
--bert-cache {case}/cache
--bert-cache {case}/cache --bert-cache-dtype fp32
--bert-cache {case}/cache --bert-cache-dtype bf16
"""
OF_FUSION = """
--bert-fusion stacked
--bert-fusion gated
--bert-fusion embedding
--bert-fusion stacked --bert-stack-order encoder-first
--bert-attend encoder
--bert-attend decoder
--bert-gates 1,0
--bert-identity-start
--bert-warm-start {transformer}
--attention-map sparsemax
--attention-map entmax15
--attention-map entmax
--self-attention-map entmax15
--self-attention-map entmax
"""
OF_GRU = """
--attention dot
--attention none
--layer-norm
--rnn-init paper
--encoder-layers 2
--decoder-layers 2
--share-decoder-input-output-embed
--attention-map sparsemax
--attention-map entmax15
--attention-map entmax
"""
OF_HOST = """
--bf16
--memory-efficient-bf16
--amp
--update-freq 2
--max-tokens 400
--batch-size 3 --max-tokens 1000
--truncate-source --max-source-positions 8
--left-pad-source
--share-all-embeddings
--ema-decay 0.9 --store-ema
--store-ema --ema-fp32
--num-batch-buckets 3
--dataset-impl mmap
--upsample-primary 3
--eval-bleu --eval-bleu-args {{"beam":2,"max_len_b":5}}
--validate-interval-updates 1
--valid-subset valid,test
--disable-validation
--no-save-optimizer-state
--clip-norm 0.1
--sentence-avg
--dropout 0.3
--criterion label_smoothed_cross_entropy --label-smoothing 0.1
--criterion cross_entropy
--criterion bert_fused_label_smoothed_cross_entropy --consistency simcut
--criterion bert_fused_label_smoothed_cross_entropy --consistency r-drop
--criterion label_smoothed_cross_entropy_with_rdrop
--optimizer adafactor
--optimizer adam --weight-decay 0.1
--lr-scheduler inverse_sqrt --warmup-updates 4
--lr-scheduler reduce_lr_on_plateau
--task translation
--fp16-no-flatten-grads --fp16
--empty-cache-freq 1
--skip-remainder-batch
--grouped-shuffling
--num-workers 2
--tensorboard-logdir {case}/curves
"""
OF_TRANSFORMER = """
--left-pad-target
--encoder-layerdrop 0.5
--decoder-layerdrop 0.5
--adaptive-softmax-cutoff 5,10 --criterion adaptive_loss
--checkpoint-activations
--offload-activations
--layernorm-embedding
--no-scale-embedding
--encoder-learned-pos
--decoder-learned-pos
--no-token-positional-embeddings
--encoder-normalize-before --decoder-normalize-before
--activation-fn gelu
--activation-dropout 0.2
--attention-dropout 0.2
--encoder-layers 1
--decoder-layers 1
--encoder-layers 0
--decoder-output-dim 8 --adaptive-softmax-cutoff 5,10 --criterion adaptive_loss
--no-decoder-final-norm
"""
REFUSED_BY_FAIRSEQ = {  # and why
    "--criterion label_smoothed_cross_entropy_with_rdrop": "fairseq's main has it, and its release has not",
}
FAMILIES = {
    "bert_fused": (OF_BERT + OF_FUSION, OF_HOST + OF_TRANSFORMER),
    "gru_bahdanau": (OF_GRU, OF_HOST),
    "gru_bahdanau with BERT": (OF_GRU + OF_BERT, OF_HOST),
}


def names(flag: Flag) -> Set[str]:
    """Return the names of the flags in *flag*, without their values."""
    return {word for word in flag.split() if word.startswith("--")}


def together(one: Flag, other: Flag) -> bool:
    """Return whether both can stand in one command line."""
    return not names(one) & names(other)


class Pairs:
    """The pairs that are still to be tried, and those that are known to be refused.

    Args:
        own: the flags of the plug-in.
        others: flags of fairseq; two of them are no pair.
    """

    def __init__(self, own: Sequence[Flag], others: Sequence[Flag]) -> None:
        self.flags = [*own, *others]
        possible = [frozenset(pair) for pair in combinations(self.flags, 2) if together(*pair)]
        self.left: Dict[Pair, None] = dict.fromkeys(pair for pair in possible if pair & set(own))
        self.refused: Set[Pair] = set()
        self._random = Random(1)

    def group(self, size: int) -> List[Flag]:
        """Return at most *size* flags, with pairs among them that were not tried, and none that is refused."""
        group = list(next(iter(self.left)))
        for flag in self._random.sample(self.flags, len(self.flags)):
            is_new = any(frozenset((flag, other)) in self.left for other in group)
            if len(group) < size and is_new and self._fits(flag, group):
                group.append(flag)
        return group

    def tried(self, group: Sequence[Flag], refused: bool = False) -> None:
        """Take note that *group*, which is a pair if it was *refused*, was tried."""
        for pair in map(frozenset, combinations(group, 2)):
            self.left.pop(pair, None)
            if refused:
                self.refused.add(pair)

    def within(self, group: Sequence[Flag], message: Optional[str] = None) -> List[Tuple[Flag, ...]]:
        """Return the pairs of *group* that were not tried, or those whose flags some line of *message* names."""
        lines = None if message is None else message.splitlines()
        return [
            pair
            for pair in combinations(group, 2)
            if frozenset(pair) in self.left
            and (lines is None or any(all(any(n in line for n in names(flag)) for flag in pair) for line in lines))
        ]

    def _fits(self, flag: Flag, group: List[Flag]) -> bool:
        return flag not in group and all(
            together(flag, other) and frozenset((flag, other)) not in self.refused for other in group
        )
