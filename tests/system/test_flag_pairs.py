"""Each pair of flags, one of which is the plug-in's, trains and translates, or is refused by a sentence."""

import json
import math
import shutil
from collections import Counter

import pytest
from conftest import hypotheses
from flag_pairs import FAMILIES, REFUSED_BY_FAIRSEQ, Pairs

pytestmark = pytest.mark.slow

WHEN_TRANSLATING = ("--bert-text", "--bert-cache", "--bert-cache-dtype", "--dataset-impl")
REFUSED = "bert_fused_plugin: error: "
SENTENCES = 30  # of the test set


class Trials:
    """Trains and translates with groups of flags, and takes a group that fails apart until the guilty pair is known."""

    def __init__(self, workspace, plain, folder, family):
        self.workspace, self.folder = workspace, folder
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
        # a flag that fails alone would fail in each pair
        own, others = ([flag for flag in flags if alone[flag][0] == "held"] for flags in (own, others))
        self.pairs = Pairs(own, others)
        self.number = len(self.pairs.left)

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

    def settle(self, group):
        """Try *group* and, if it fails, its pairs, first those that the message names."""
        outcome, message = self.outcome(group)
        if outcome == "held":
            self.outcomes["held"] += len(self.pairs.within(group))
            self.pairs.tried(group)
        elif len(group) == 2:
            self.outcomes[outcome] += 1
            self.pairs.tried(group, refused=True)
            if outcome == "broken":
                self.broken[" ".join(group)] = message[-2000:]
        else:
            known = len(self.pairs.refused)
            for pair in self.pairs.within(group, message):
                self.settle(pair)
            if len(self.pairs.refused) == known:  # else the other pairs come again, without those that fail
                for pair in self.pairs.within(group):
                    self.settle(pair)

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
        if not trials.pairs.left:
            break
        trials.settle(trials.pairs.group(8))
    soak.figure(f"{trials.number:,} pairs in {trials.runs:,} trainings: {json.dumps(trials.outcomes)}")
    assert not trials.broken
    assert trials.outcomes["held"] > 0
