"""The states of segments in memory maps, of which there are never more than the system allows."""

import logging
from collections import OrderedDict
from pathlib import Path
from typing import Any, Dict, List, Optional, Set

import numpy as np
from torch import Tensor

from bert_fused_plugin.data.cache_stamps import file_state, read_stamps, stamp
from bert_fused_plugin.data.feature_segments import is_sound, map_states, open_segment

logger = logging.getLogger(__name__)

MOST_MAPS = 4096


class MappedStates:
    """Maps a segment when one of its states is read, and lets go of the segment that was not read for the longest time.

    A segment without a stamp is verified when it is mapped.  No process waits for another one that does so: at worst
    two verify the same segment.  A damaged segment is removed, and its sentences have no states any more.

    Args:
        path: folder of the segments.
        dim: the width of the states.
        dtype: number format of the states.
    """

    def __init__(self, path: Path, dim: int, dtype: "np.dtype[Any]") -> None:
        self.names: List[str] = []
        self.verified: Set[str] = set()
        self.lost: Set[str] = set()
        self._path = path
        self._dim = dim
        self._dtype = dtype
        self._maps: OrderedDict[int, Tensor] = OrderedDict()

    def __getitem__(self, number: int) -> Optional[Tensor]:
        """Return the states of segment *number* of `names`, (word pieces, dim), or None if it is damaged or gone."""
        states = self._maps.pop(number, None)
        if states is None:
            states = self._map(self.names[number])
            if states is None:
                return None
            if len(self._maps) >= MOST_MAPS:
                self._maps.popitem(last=False)
        self._maps[number] = states  # as the one that was read last
        return states

    def __getstate__(self) -> Dict[str, Any]:
        # another process maps the files by itself
        return {**self.__dict__, "_maps": OrderedDict(), "verified": sorted(self.verified), "lost": sorted(self.lost)}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update({**state, "verified": set(state["verified"]), "lost": set(state["lost"])})

    def verify(self, name: str) -> bool:
        """Return whether the segment *name* is sound; one that is not is removed.

        Raises:
            OSError: the file cannot be read.
        """
        file = self._path / name
        state = file_state(file)
        if read_stamps(self._path).get(name) != state:
            segment = open_segment(file, self._dim, self._dtype)
            if segment is None or not is_sound(file, segment):
                self.remove_damaged(name)
                return False
            stamp(self._path, name, state)
        self.verified.add(name)
        return True

    def remove_damaged(self, name: str) -> None:
        """Remove a segment that is damaged if this user may, and use it no more."""
        self.lost.add(name)
        try:
            (self._path / name).unlink(missing_ok=True)
        except OSError as error:
            logger.warning(f"BERT cache {self._path / name} is damaged and cannot be removed; it is not used ({error})")
        else:
            logger.warning(
                f"BERT cache {self._path / name} is damaged: it is removed, and its sentences are computed anew"
            )

    def set_aside(self, name: str, error: OSError) -> None:
        """Use a segment no more that cannot be read because of *error*; it stays, since this may be for a moment."""
        self.lost.add(name)
        logger.warning(f"BERT cache {self._path / name} cannot be read ({error}): its sentences are computed anew")

    def _map(self, name: str) -> Optional[Tensor]:
        file = self._path / name
        if name in self.lost:
            return None
        try:
            if name not in self.verified and not self.verify(name):
                return None
            segment = open_segment(file, self._dim, self._dtype)
            if segment is not None:
                return map_states(file, segment)
            self.remove_damaged(name)
        except FileNotFoundError:
            self.lost.add(name)
            logger.warning(f"BERT cache {file} is gone: BERT computes the states of its sentences in every step")
        except OSError as error:  # a network disk may fail for a moment, and the states can be computed
            self.lost.add(name)
            logger.warning(
                f"BERT cache {file} cannot be read ({error}): BERT computes the states of its sentences in every step"
            )
        return None
