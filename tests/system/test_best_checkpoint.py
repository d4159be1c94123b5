"""The checkpoint that training keeps as its best by BLEU."""

import json

import pytest
import sacrebleu
import torch
from conftest import GRU_SIZES, TINY
from translating import Model, train


@pytest.mark.parametrize("arch", ["bert_fused", "gru_bahdanau"])
def test_the_checkpoint_with_the_best_bleu_is_kept(workspace, tmp_path, arch):
    """BLEU in training is that of fairseq-generate on the same checkpoint."""
    sizes = [*TINY, "--bert-model", workspace.bert_dir] if arch == "bert_fused" else GRU_SIZES
    train(
        workspace.data, tmp_path, "--arch", arch, *sizes, "--eval-bleu", "--eval-bleu-detok", "moses",
        "--eval-bleu-args", json.dumps({"beam": 2, "max_len_b": 10, "lenpen": 2}), "--eval-bleu-remove-bpe",
        "--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric", "--max-epoch", "3",
        "--eval-bleu-print-samples",
    )  # fmt: skip
    best_path = tmp_path / "checkpoint_best.pt"
    extra = torch.load(best_path, weights_only=False)["extra_state"]
    out = Model(workspace.data, best_path).generate(
        "--gen-subset", "valid", "--beam", "2", "--lenpen", "2", "--remove-bpe", "--tokenizer", "moses",
        "--source-lang", "en", "--target-lang", "de", "--scoring", "sacrebleu",
    )  # fmt: skip
    hypotheses, references = (list(out.best(kind).values()) for kind in "DT")
    bleu = sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert extra["val_loss"] == extra["best"] == pytest.approx(bleu, abs=0.006)
