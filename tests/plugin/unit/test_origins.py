"""From which checkpoint a training began, as far as its checkpoint says."""

from argparse import Namespace

import pytest
from omegaconf import OmegaConf

from bert_fused_plugin.checkpoints.record import origins

RESTORED = {"restore_file": "base.pt", "reset_optimizer": True}


def checkpoint(launches, **flags):
    given = {"finetune_from_model": None, "restore_file": "checkpoint_last.pt", "reset_optimizer": False, **flags}
    history = [{"num_updates": count} for count in launches]
    return {"cfg": {"checkpoint": given}, "args": None, "optimizer_history": history, "model": {}}


@pytest.mark.parametrize(
    ("launches", "flags", "expected"),
    [
        ([30], {}, []),
        ([10, 20, 20], {}, []),  # resumed twice
        ([100, 30], {"finetune_from_model": "base.pt"}, [("base.pt", 100)]),
        ([30, 100], {"finetune_from_model": "base.pt"}, [("base.pt", 30)]),
        ([50, 100, 30, 70], {"finetune_from_model": "base.pt"}, [("base.pt", 100)]),  # both were resumed
        ([50, 100, 30, 70], {}, [(None, 100)]),  # the flag was left out when the training resumed
        ([30, 100, 200], {"finetune_from_model": "base.pt"}, [("base.pt", None)]),  # 30 or 100
        ([500, 100, 30], {"finetune_from_model": "base.pt"}, [("base.pt", 100), (None, 500)]),
        ([100, 200], RESTORED, [("base.pt", 100)]),
        ([100, 100], RESTORED, [("base.pt", 100)]),
        ([100, 200], {"restore_file": "base.pt"}, []),  # which goes on counting
        ([100, 200], {"reset_optimizer": True}, []),  # of checkpoint_last.pt, which was not there at the start
        ([30], {"finetune_from_model": "base.pt"}, [("base.pt", None)]),
    ],
)
def test_what_fairseq_knows(launches, flags, expected):
    saved = checkpoint(launches, **flags)
    assert origins(saved) == expected
    assert origins({**saved, "cfg": OmegaConf.create(saved["cfg"])}) == expected
    assert origins({**saved, "cfg": None, "args": Namespace(**saved["cfg"]["checkpoint"])}) == expected
