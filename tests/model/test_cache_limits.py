"""--bert-cache-limit and batches: a training that is resumed in the middle of an epoch goes on with the same ones."""

import copy

import pytest
from helpers import WORDS

from bert_fused_plugin.tasks.bert_fused_translation import BertFusedTranslationTask
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig
from bert_fused_plugin.tasks.cached_states import CachedStates

D = 12
TRAIN = ("a", "b", "c")


def lines(seed, number=20):
    """Lines of different words and lengths, of up to 9 words; each seed has longer ones."""
    return [" ".join(WORDS[(seed + i * k) % 17] for k in range(1 + (i * 7 + seed) % (5 + seed))) for i in range(number)]


@pytest.fixture
def new_task(tmp_path, dictionary, build):
    """Return a task of a new process on three data directories, with a cache of a limited size."""
    for seed, name in enumerate(TRAIN):
        (tmp_path / name).mkdir()
        for split, text in (("train", lines(seed)), ("valid", lines(3, 8))):
            for lang in ("en", "de"):
                (tmp_path / name / f"{split}.en-de.{lang}").write_text("\n".join(text) + "\n", encoding="utf-8")

    def make(gigabytes):
        cfg = BertFusedTranslationConfig(
            data=":".join(str(tmp_path / name) for name in TRAIN),
            source_lang="en",
            target_lang="de",
            dataset_impl="raw",
            train_subset="train",
            required_seq_len_multiple=1,
            bert_cache=str(tmp_path / "cache"),
            bert_cache_dtype="fp32",
            bert_cache_limit=gigabytes,
        )
        task, model = BertFusedTranslationTask(cfg, dictionary, dictionary), build()
        task.bridge, task.cached_states = model.encoder.bridge, CachedStates(cfg, model)
        return task

    return make


def epoch(task, number):
    """Load the training set of an epoch as fairseq's trainer does, and return its iterator."""
    task.load_dataset("train", epoch=number)
    return task.get_batch_iterator(
        task.dataset("train"), max_tokens=30, seed=1, epoch=number, disable_iterator_cache=True
    )


def batches(iterator):
    return [(batch["id"].tolist(), "bert_out" in batch["net_input"]) for batch in iterator]


@pytest.mark.parametrize("pieces", [90, 150])
def test_a_resumed_epoch_has_the_batches_of_the_unbroken_one(new_task, pieces):
    gigabytes = pieces * D * 4 / 1e9
    unbroken = new_task(gigabytes)
    unbroken.load_dataset("valid")
    for number in (1, 2):
        list(epoch(unbroken, number).next_epoch_itr())
    iterator = epoch(unbroken, 3)
    running = iterator.next_epoch_itr()
    first = batches(next(running) for _ in range(2))
    state = copy.deepcopy(iterator.state_dict())
    rest = batches(running)
    assert {cached for _, cached in first + rest} == {True, False}  # the limit leaves room for some
    epoch(new_task(None), 3)  # another run, without a limit
    resumed = epoch(new_task(gigabytes), 3)
    resumed.load_state_dict(state)
    assert batches(resumed.next_epoch_itr()) == rest


def test_the_limit_holds_for_all_data_directories_together(new_task, tmp_path):
    task = new_task(300 * D * 4 / 1e9)
    rows = []
    for number in (1, 2, 3, 4):
        epoch(task, number)
        dataset = task.dataset("train")
        rows.append([tuple(dataset.bert_tokens(i).tolist()) for i in range(len(dataset)) if "bert_out" in dataset[i]])
    assert rows[3] == rows[0]
    sizes = [sum(map(len, set(shard))) for shard in rows[:3]]
    assert all(80 < size <= 100 for size in sizes)
    assert sum(map(len, {row for shard in rows for row in shard})) <= 300
