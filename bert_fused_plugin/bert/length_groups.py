"""Groups the sentences of a batch by length, so that an encoder computes little for padding."""

from typing import Iterator, List, Sequence


def groups_by_length(lengths: Sequence[int], fewest: int) -> Iterator[List[int]]:
    """Yield the rows of a batch in groups, shortest sentences first.

    A group ends where the length rises and the group has *fewest* tokens or more, with its padding.  So sentences of
    one length stay together, and with *fewest* 1 no group has padding.

    Args:
        lengths: number of tokens of each row.
        fewest: tokens that a group has at least, except for the last one.
    """
    group: List[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and lengths[row] > lengths[group[-1]] and len(group) * lengths[group[-1]] >= fewest:
            yield group
            group = []
        group.append(row)
    if group:
        yield group
