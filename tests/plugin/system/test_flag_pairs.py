"""Each pair of flags, one of which is the plug-in's, trains and translates, or is refused by a sentence."""

import json
import math
import shutil
from collections import Counter
from itertools import combinations
from random import Random

import pytest
from workspace import hypotheses

pytestmark = pytest.mark.slow

# a flag is a line of flags and values that belong together; {case} is a new folder, {text} a raw one
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
--num-workers 2 --max-tokens-valid 1e4
--tensorboard-logdir {case}/curves
"""
OF_TRANSFORMER = """
--encoder-layerdrop 0.5
--decoder-layerdrop 0.5
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


def names(flag):
    """Return the names of the flags in *flag*, without their values."""
    return {word for word in flag.split() if word.startswith("--")}


WHEN_TRANSLATING = ("--bert-text", "--bert-cache", "--bert-cache-dtype", "--dataset-impl")
REFUSED = "bert_fused_plugin: error: "
SENTENCES = 30  # of the test set


class Trials:
    """Trains and translates with groups of flags, and takes a group that fails apart until the guilty pair is known.

    Two flags of fairseq may stand together, but are no pair that is tried.
    """

    def __init__(self, workspace, plain, folder, family):
        self.workspace, self.folder, self.random = workspace, folder, Random(1)
        places = {"case": folder, "text": workspace.path, "transformer": plain / "checkpoint_last.pt"}
        own, others = ([line.format(**places) for line in text.strip().splitlines()] for text in FAMILIES[family])
        if family == "bert_fused":
            self.train = workspace.train
        else:
            bert = ["--bert-model", workspace.bert_dir] if "BERT" in family else []
            self.train = lambda *flags, save_dir, **options: workspace.train_gru(save_dir, *bert, *flags, **options)
        self.runs, self.outcomes = 0, Counter()
        alone = {flag: self.outcome([flag]) for flag in (*own, *others)}
        self.broken = {
            flag: message[-2000:]
            for flag, (outcome, message) in alone.items()
            if outcome == "broken" and flag not in REFUSED_BY_FAIRSEQ
        }
        self.flags = [flag for flag in alone if alone[flag][0] == "held"]  # another one would fail in each pair
        possible = (pair for pair in combinations(self.flags, 2) if not names(pair[0]) & names(pair[1]))
        self.together = dict.fromkeys(map(frozenset, possible))  # the pairs that may stand in one command line
        self.left = {pair: None for pair in self.together if pair & {*own}}  # those that are still to be tried
        self.number = len(self.left)

    def outcome(self, group):
        """Return whether *group* held, was refused or broke, and what it said."""
        self.runs += 1
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        flags = [word for flag in group for word in flag.split()]
        done = self.train("--max-update", "2", *flags, save_dir=self.folder / "save", ok=False)
        if done.returncode == 0:
            done = self._translate(flags)
        if done.returncode:
            return ("refused" if REFUSED in done.stderr else "broken"), done.stderr
        found = hypotheses(done.stdout)
        whole = sorted(found) == list(range(SENTENCES)) and all(math.isfinite(score) for score, _ in found.values())
        return ("held", "") if whole else ("broken", f"translations: {found}")

    def group(self, size):
        """Return at most *size* flags, with pairs among them that were not tried, and none that is refused."""
        group = list(next(iter(self.left)))
        for flag in self.random.sample(self.flags, len(self.flags)):
            pairs = {frozenset((flag, other)) for other in group if other != flag}
            if flag not in group and pairs <= self.together.keys() and pairs & self.left.keys():
                group.append(flag)
        return group[:size]

    def settle(self, group):
        """Try *group* and, if it fails, its pairs: those that the message names or, without such, all."""
        outcome, message = self.outcome(group)
        pairs = [pair for pair in map(frozenset, combinations(group, 2)) if pair in self.left]
        if outcome == "held" or len(group) == 2:
            self.outcomes[outcome] += len(pairs)
            self.left = {pair: None for pair in self.left if pair not in pairs}
            if outcome != "held":
                del self.together[frozenset(group)]
            if outcome == "broken":
                self.broken[" ".join(group)] = message[-2000:]
            return
        lines = message.splitlines()
        named = [pair for pair in pairs if any(all(any(n in line for n in names(f)) for f in pair) for line in lines)]
        for pair in named or pairs:
            self.settle([*pair])

    def _translate(self, flags):
        task = flags[flags.index("--task") + 1] if "--task" in flags else "bert_fused_translation"
        known = [name for name in WHEN_TRANSLATING if task != "translation" or not name.startswith("--bert")]
        again = [word for name in known if name in flags for word in (name, flags[flags.index(name) + 1])]
        again += ["--left-pad-source"] if "--left-pad-source" in flags else []
        path = ["--path", self.folder / "save" / "checkpoint_last.pt", "--num-workers", "0"]
        return self.workspace.generate(*path, *again, task=task, ok=False)


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("family", FAMILIES)
def test_each_pair_of_flags_works_or_is_refused_by_a_sentence(workspace, plain, tmp_path, soak, family):
    trials = Trials(workspace, plain, tmp_path / "case", family)
    for _ in range(soak.amount(5, 100_000)):
        if not trials.left:
            break
        trials.settle(trials.group(8))
    soak.figure(f"{trials.number:,} pairs in {trials.runs:,} trainings: {json.dumps(trials.outcomes)}")
    assert not trials.broken
    assert trials.outcomes["held"] > 0
