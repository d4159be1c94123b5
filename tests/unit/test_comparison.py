"""The sentences of the report."""

import pytest

from bert_fused_plugin.commands.compare import main
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.reports.comparison import bert_verdict
from bert_fused_plugin.reports.scoring import Score


@pytest.mark.parametrize(
    ("better", "said"),
    [
        (-1, "fused uses what BERT says: it changes by -2.00 BLEU"),
        (0, "This test set does not show that fused uses"),
        (1, "This test set does not show"),
    ],
)
def test_what_is_said_of_bert(better, said):
    on, shuffled = Score(30.0, 30.0, 1.0), Score(28.0, 28.0, 1.0, 0.5, better)
    verdict = bert_verdict("fused", {"on": {"BLEU": on}, "shuffled": {"BLEU": shuffled}})
    assert verdict is not None
    assert verdict.startswith(said)
    assert verdict.endswith("by -2.00 BLEU (from 30.00 to 28.00, p = 0.500) when BERT reads another sentence.")
    assert bert_verdict("fused", {"on": {"BLEU": on}}) is None


def test_numbers_that_are_too_small_are_named_together():
    with pytest.raises(BertFusedError) as caught:
        main(["data", "--baseline", "a=b", "--output", "c", "--max-tokens", "0", "--samples", "0", "--examples", "-1"])
    assert caught.value.errors == (
        "--max-tokens must be at least 1, got 0; give a larger number",
        "--samples must be at least 1, got 0; give a larger number",
        "--examples must be at least 0, got -1; give a larger number",
    )
