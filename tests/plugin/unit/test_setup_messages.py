"""What matters of a set-up is said once more before training begins, and only once."""

import logging
from argparse import Namespace

from helpers import GRU_SIZES, translation_task

from bert_fused_plugin import setup_messages
from bert_fused_plugin.setup_messages import REPEAT

OURS = logging.getLogger("bert_fused_plugin.somewhere")


def said_again(caplog):
    return [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "bert_fused_plugin.setup_messages"]


def test_warnings_and_marked_messages_come_once_more_in_their_order(caplog):
    setup_messages.collect()
    OURS.warning("first")
    OURS.info("not marked")
    OURS.info("marked", extra=REPEAT)
    OURS.warning("first")
    OURS.error("last")
    logging.getLogger("fairseq.somewhere").warning("of others")
    setup_messages.end(repeat=True)
    assert said_again(caplog) == [
        ("WARNING", "said at set-up: first"),
        ("INFO", "said at set-up: marked"),
        ("ERROR", "said at set-up: last"),
    ]
    caplog.clear()
    OURS.warning("while training")
    setup_messages.end(repeat=True)
    assert said_again(caplog) == []


def test_a_second_task_leaves_what_was_said_of_the_first(dictionary, caplog):
    handlers = len(logging.getLogger("bert_fused_plugin").handlers)
    tasks = []
    for number in range(3):
        tasks.append(translation_task(dictionary))
        OURS.warning(f"of task {number}")
    assert len(logging.getLogger("bert_fused_plugin").handlers) <= handlers + 1
    for epoch in (1, 2):
        tasks[-1].begin_epoch(epoch, None)
    assert said_again(caplog) == [("WARNING", "said at set-up: of task 2")]


def test_nothing_is_kept_where_no_training_follows(dictionary, caplog):
    task = translation_task(dictionary)
    OURS.warning("seen")
    args = Namespace(**GRU_SIZES, arch="gru_dot")
    task.build_model(args, from_checkpoint=True)
    assert setup_messages._collector not in logging.getLogger("bert_fused_plugin").handlers
    task.begin_epoch(1, None)
    assert said_again(caplog) == []
