"""How fairseq's main makes batches: it loses sentences, and makes other batches after a resumption."""

import functools
from typing import Any

import numpy as np


def no_lost_sentences(module: Any) -> None:
    """Let batch_by_size keep the last batch."""
    # fairseq's main drops the last batch if its size is no multiple of --required-batch-size-multiple (8 by default),
    # and so loses sentences of test sets, and whole buffers of fairseq-interactive.  Can go when it drops none.
    stock = module.batch_by_size

    @functools.wraps(stock)
    def batch_by_size(indices: Any, *args: Any, **options: Any) -> Any:
        if options.get("fixed_shapes") is not None:  # for TPUs; there fairseq drops nothing
            return stock(indices, *args, **options)
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        if len(indices) == 0:
            return []
        batches = stock(indices, *args, **options)
        lost = indices[sum(map(len, batches)) :]  # those of a batch follow those of the batch before
        return batches if len(lost) == 0 else [*batches, lost]

    module.batch_by_size = batch_by_size


def same_batches_when_resumed(module: Any) -> None:
    """Let a training that is resumed in a later epoch have the batches of the unbroken one."""
    # fairseq's main makes the batches once, in the epoch of the start, and seeds them with this epoch's number.  0.12.2
    # has no make_batches.  Can go when the seed of batches that all epochs share does not depend on the epoch.
    task = module.FairseqTask
    stock = task.get_batch_iterator
    if "make_batches" not in stock.__code__.co_varnames:
        return

    @functools.wraps(stock)
    def get_batch_iterator(self: Any, dataset: Any, *args: Any, epoch: int = 1, **options: Any) -> Any:
        for_this_epoch = options.get("disable_iterator_cache") or options.get("update_epoch_batch_itr")
        made_before = dataset in self.dataset_to_epoch_iter
        if epoch == 1 or for_this_epoch or made_before or not self.can_reuse_epoch_itr(dataset):
            return stock(self, dataset, *args, epoch=epoch, **options)
        iterator = stock(self, dataset, *args, epoch=1, **options)
        dataset.set_epoch(epoch)
        iterator.epoch = epoch
        return iterator

    task.get_batch_iterator = get_batch_iterator
