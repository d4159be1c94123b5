"""Print the flags of fairseq's lstm of the sizes of a recurrent architecture of this package.

python examples/lstm_flags.py ARCH
"""

import sys
from argparse import Namespace

from fairseq.models import ARCH_CONFIG_REGISTRY

from bert_fused_plugin.models.gru_bahdanau.config import GruConfig

_SIZES = (
    "encoder_embed_dim", "encoder_hidden_size", "encoder_layers",
    "decoder_embed_dim", "decoder_hidden_size", "decoder_out_embed_dim", "decoder_layers",
)  # fmt: skip


def main(arch: str) -> str:
    """Return the flags for the sizes of *arch*, such as ``gru_bahdanau_tiny``."""
    preset = Namespace()
    ARCH_CONFIG_REGISTRY[arch](preset)
    sizes = {**vars(GruConfig()), **vars(preset)}
    given = (f"--{name.replace('_', '-')} {sizes[name]}" for name in _SIZES)
    return " ".join(["--arch lstm --encoder-bidirectional", *given])


if __name__ == "__main__":
    print(main(sys.argv[1]))
