"""Batches of fairseq's main under fairseq_compat: no sentence is lost, and a resumed training has the same."""

from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
from fairseq.data import data_utils

from fairseq_compat.patches import no_lost_sentences, same_batches_when_resumed

SIZES = np.full(30, 4)
LIMITS = [
    {"max_sentences": 8},  # 8 + 8 + 8 + 6
    {"max_tokens": 100},  # 24 + 6
    {"max_sentences": 8, "required_batch_size_multiple": 1},
    {"max_tokens": 1000},  # 24 + 6
    {"max_tokens": 1000, "required_batch_size_multiple": 64},  # one batch, which is no multiple
]


def made_by(batch_by_size, indices, **options):
    options = {"required_batch_size_multiple": 8, "num_tokens_vec": SIZES, **options}
    return [list(batch) for batch in batch_by_size(indices, lambda i: SIZES[i], **options)]


def module_that_drops():
    """As fairseq's main forms batches, around those of the installed fairseq."""

    def batch_by_size(*args, required_batch_size_multiple=1, **options):
        batches = data_utils.batch_by_size(*args, required_batch_size_multiple=required_batch_size_multiple, **options)
        if required_batch_size_multiple > 1 and len(batches[-1]) % required_batch_size_multiple != 0:
            batches = batches[:-1]
        return batches

    return SimpleNamespace(batch_by_size=batch_by_size)


@pytest.mark.parametrize("limits", LIMITS, ids=repr)
def test_the_last_batch_of_fairseq_main_is_kept(limits):
    module = module_that_drops()
    order = np.random.permutation(30)
    expected = made_by(data_utils.batch_by_size, order, **limits)
    assert sorted(chain(*expected)) == list(range(30))
    if limits.get("required_batch_size_multiple") != 1:
        assert sum(map(len, made_by(module.batch_by_size, order, **limits))) < 30
    no_lost_sentences(module)
    assert made_by(module.batch_by_size, order, **limits) == expected
    assert made_by(module.batch_by_size, iter(order), **limits, num_tokens_vec=SIZES) == expected


def test_no_sentences_are_no_batches():
    module = module_that_drops()
    no_lost_sentences(module)
    assert made_by(module.batch_by_size, [], max_sentences=8) == []


class Data:
    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch


class TaskOfMain:
    """Makes batches as fairseq's main does: by the epoch in which an iterator is made."""

    def __init__(self, reuses=True):
        self.dataset_to_epoch_iter, self.reuses = {}, reuses

    def can_reuse_epoch_itr(self, dataset):
        return self.reuses

    def get_batch_iterator(self, dataset, seed=1, epoch=1, disable_iterator_cache=False, update_epoch_batch_itr=False):
        make_batches = np.random.RandomState
        dataset.set_epoch(epoch)
        if dataset not in self.dataset_to_epoch_iter:
            batches = make_batches(seed + epoch).permutation(9).tolist()
            self.dataset_to_epoch_iter[dataset] = SimpleNamespace(epoch=epoch, batches=batches)
        return self.dataset_to_epoch_iter[dataset]


@pytest.fixture
def make_iterator():
    """Return the data set and the iterator of a new task of fairseq's main."""
    module = SimpleNamespace(
        FairseqTask=type("Task", (TaskOfMain,), {"get_batch_iterator": TaskOfMain.get_batch_iterator})
    )
    same_batches_when_resumed(module)

    def make(*args, reuses=True, **options):
        data, make.task = Data(), module.FairseqTask(reuses)
        return data, make.task.get_batch_iterator(data, *args, **options)

    return make


def test_a_resumed_training_has_the_batches_of_the_unbroken_one(make_iterator):
    _, unbroken = make_iterator()
    for data, resumed in (make_iterator(epoch=3), make_iterator(1, 3)):
        assert resumed.batches == unbroken.batches
        assert resumed.epoch == data.epoch == 3


@pytest.mark.parametrize(
    "options", [{"reuses": False}, {"disable_iterator_cache": True}, {"update_epoch_batch_itr": True}], ids=repr
)
def test_data_of_each_epoch_have_batches_of_their_own(make_iterator, options):
    assert make_iterator(epoch=3, **options)[1].batches != make_iterator()[1].batches


def test_the_iterator_of_a_running_training_stays_as_it_is(make_iterator):
    data, first = make_iterator()
    task = make_iterator.task
    assert task.get_batch_iterator(data, epoch=2) is first
    assert first.epoch == 1


def test_a_fairseq_whose_batches_do_not_depend_on_the_epoch_is_left_alone():
    def get_batch_iterator(self, dataset, epoch=1):
        return dataset

    task = type("Task", (), {"get_batch_iterator": get_batch_iterator})
    same_batches_when_resumed(SimpleNamespace(FairseqTask=task))
    assert task.get_batch_iterator is get_batch_iterator
