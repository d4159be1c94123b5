"""How a layer joins its NMT branch and BERT's branch."""

from torch import Tensor, nn

from bert_fused_plugin.modules.drop_net import DropNet


class ParallelFusion(nn.Module):
    """The mean of both branches (Zhu et al. 2020, section 4.1, steps 2 and 3), under drop-net in training.

    Args:
        p_net: drop-net's rate.
    """

    def __init__(self, p_net: float) -> None:
        super().__init__()
        self.drop_net = DropNet(p_net)

    def forward(self, other: Tensor, bert: Tensor) -> Tensor:
        """Return w_other * *other* + w_bert * *bert*; all are (T, B, C).

        A branch of weight zero still takes part: under DDP each parameter needs a gradient in each step.
        """
        w_other, w_bert = self.drop_net()
        return w_other * other + w_bert * bert
