"""Lines to translate, none of which is too long for a batch."""

from typing import Any, Optional

import numpy as np
from fairseq.data import BaseWrapperDataset, data_utils
from numpy.typing import NDArray


class AnyLengthDataset(BaseWrapperDataset):
    """The lines of fairseq-interactive or of the hub interface.

    fairseq refuses all lines of a list if one of them has more tokens than ``--max-tokens``.  Here such a line is a
    batch by itself.

    Args:
        dataset: fairseq's data set of the lines.
    """

    def batch_by_size(
        self,
        indices: NDArray[np.int64],
        max_tokens: Optional[int] = None,
        max_sentences: Optional[int] = None,
        required_batch_size_multiple: int = 1,
    ) -> Any:
        """Return batches of *indices*, as fairseq forms them of lines that are not too long."""
        sizes = self.dataset.num_tokens_vec(indices).astype(np.int64)
        return data_utils.batch_by_size(
            indices,
            self.num_tokens,
            num_tokens_vec=sizes if max_tokens is None else np.minimum(sizes, max_tokens),
            max_tokens=max_tokens,
            max_sentences=max_sentences,
            required_batch_size_multiple=required_batch_size_multiple,
        )
