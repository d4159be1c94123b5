"""BLEU in training (--eval-bleu) and learning curves (--tensorboard-logdir), with every architecture."""

import json
import logging
import math

import pytest
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from translating import train

import bert_fused_plugin  # noqa: F401  registers the architectures

pytestmark = pytest.mark.system

SIZES = {  # by model; the number of encoder layers belongs to the architecture
    "bert_fused": "--encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-attention-heads 2 "
    "--decoder-embed-dim 16 --decoder-ffn-embed-dim 24 --decoder-attention-heads 2 --decoder-layers 2",
    "gru_bahdanau": "--encoder-embed-dim 16 --encoder-hidden-size 12 --decoder-embed-dim 16 --decoder-hidden-size 20 "
    "--decoder-out-embed-dim 16",
}
ARCHITECTURES = [arch for arch, model in ARCH_MODEL_REGISTRY.items() if "bert_fused_plugin" in model.__module__]
WITHOUT_BERT = [arch for arch in ARCHITECTURES if ARCH_MODEL_NAME_REGISTRY[arch] == "gru_bahdanau"]
CASES = [(arch, True) for arch in ARCHITECTURES] + [(arch, False) for arch in WITHOUT_BERT]
LENGTHS = {"beam": 2, "max_len_a": 1.2, "max_len_b": 3}


@pytest.mark.parametrize(("arch", "with_bert"), CASES)
def test_bleu_is_in_the_log_and_in_the_curves(workspace, tmp_path, caplog, arch, with_bert):
    bert = ["--bert-model", workspace.bert_dir] if with_bert else []
    with caplog.at_level(logging.INFO):
        train(
            workspace.data, tmp_path / "save", "--arch", arch, *SIZES[ARCH_MODEL_NAME_REGISTRY[arch]].split(), *bert,
            "--max-update", "2", "--log-format", "json", "--no-save", "--tensorboard-logdir", tmp_path / "curves",
            "--eval-bleu", "--eval-bleu-remove-bpe", "--eval-bleu-args", json.dumps(LENGTHS),
            "--eval-bleu-detok", "moses", "--eval-bleu-detok-args", json.dumps({"target_lang": "de"}),
            "--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric",
        )  # fmt: skip
    [logged] = [json.loads(record.getMessage()) for record in caplog.records if record.name == "valid"]
    assert math.isfinite(float(logged["valid_bleu"]))
    assert logged["valid_num_updates"] == "2"
    curve = EventAccumulator(str(tmp_path / "curves" / "valid")).Reload().Scalars("bleu")
    assert [(point.step, point.value) for point in curve] == [(2, pytest.approx(float(logged["valid_bleu"])))]
