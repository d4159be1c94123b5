"""Log-probabilities of a step of the search, in the memory of the scores."""

from typing import Any, Dict, Optional, Tuple

import torch
from fairseq.models import FairseqDecoder
from torch import Tensor


class SearchScores(FairseqDecoder):
    """A decoder that writes the log-probabilities of a step of the search over its scores, on a CPU.

    They are as large as the output matrix' product with all beams, so memory for them costs more than computing them.
    fairseq's search does not read the scores again.
    """

    def get_normalized_probs(
        self, net_output: Tuple[Tensor, Any], log_probs: bool, sample: Optional[Dict[str, Tensor]] = None
    ) -> Tensor:
        """Return the probabilities, or their logarithms, (B, T, V); the arguments are fairseq's.

        Args:
            net_output: what the decoder has returned.
            log_probs: whether to return logarithms.  Those of one position in single precision on a CPU, without a
                gradient, take the place of the scores in *net_output*.
            sample: the batch, which an adaptive softmax reads.
        """
        scores = net_output[0]
        is_step = scores.size(1) == 1 and not scores.requires_grad and "adaptive_softmax" not in self._modules
        writable = torch.is_inference_mode_enabled() or not scores.is_inference()
        if log_probs and is_step and writable and scores.dtype == torch.float32 and scores.device.type == "cpu":
            return torch.log_softmax(scores, -1, out=scores)
        probabilities: Tensor = super().get_normalized_probs(net_output, log_probs, sample)
        return probabilities
