"""examples/progress.py: what is shown of the log of a training."""

import pytest
from progress import shown

LOG = "2026-01-02 03:04:05 | INFO | "


def test_progress_shows_updates_validation_and_what_went_wrong(monkeypatch):
    clock = iter([0.0, 100.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    update = (
        "train_inner | epoch 001:    {0} / 80 loss=9.1, nll_loss=8.5, ppl=3, wps=1234.6, ups=2, num_updates={0}, lr=1"
    )
    log = [
        f"{LOG}fairseq_cli.train | {{'_name': None}}",
        f"{LOG}fairseq_cli.train | Model(",
        "  (encoder): Encoder(",
        ")",
        f"{LOG}{update.format(50)}",
        f"{LOG}{update.format(100).replace('8.5', 'nan')}",
        f"{LOG}valid | epoch 001 | valid on 'valid' subset | loss 7 | nll_loss 6.25 | bleu 3.5 | num_updates 100",
        f"{LOG}bert_fused_plugin.bert.from_flags | BERT: x",
        "copied   4 tensors",
        f"{LOG}bert_fused_plugin.setup_messages | said at set-up: BERT: x",
        "2026-01-02 03:04:05 | WARNING | bert_fused_plugin.setup_messages | said at set-up: take care",
        "Traceback (most recent call last):",
        "  File x",
        "2026-01-02 03:04:05 | WARNING | fairseq.x | take care",
        "bert_fused_plugin: error: --bert-model must be there",
    ]
    assert list(shown(log, "gru", 250)) == [
        "gru: 50 of 250 updates, nll_loss 8.5, 1,235 tokens a second",
        "gru: 100 of 250 updates, nll_loss nan, 1,235 tokens a second, about 5 minutes left",
        "gru: after 100 updates BLEU 3.5, nll_loss 6.25 in validation",
        "gru: BERT: x",
        "Traceback (most recent call last):",
        "  File x",
        "gru: take care",
        "bert_fused_plugin: error: --bert-model must be there",
    ]


@pytest.mark.parametrize(
    "line", ["usage: fairseq-train: error: unrecognized arguments: --x", "Traceback (most recent):"]
)
def test_a_log_may_begin_with_an_error(line):
    assert list(shown([line], "gru", 250)) == [line]
