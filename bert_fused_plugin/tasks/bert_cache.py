"""``--bert-cache`` for the data sets of a task: opens the directory, and loads BERT for what is missing there.

The directory has a folder for each BERT, and in it one for each data set.  The name of a folder says what it is for.
``bert.json`` says the same for people and for the log.
"""

import json
import logging
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch
from safetensors import SafetensorError
from torch import Tensor

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.identity import describe_identity, identity_fingerprint
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.cached_states import NUMBER_FORMATS, CachedStates, ComputeStates
from bert_fused_plugin.data.shared_work import rank_in
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import given_path, written_whole
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig

logger = logging.getLogger(__name__)

BERT_NAME = "--bert-model"  # the entry of a description that says where BERT was loaded from
SHARED_MEMORY = Path("/dev/shm")

_DESCRIPTION = "bert.json"
_NAME = re.compile(rf"[0-9a-f]{{32}}-({'|'.join(NUMBER_FORMATS)})")

_ENOUGH = 2**30  # bytes; Docker's default is 64 MiB, and some batches of cached states fill that


class BertCache:
    """The states of a model's BERT in the directory of ``--bert-cache``.

    Args:
        model: a model that reads BERT, before fairseq turns it to half precision.
        on_cpu: whether BERT computes on the CPU, although there may be a GPU.

    Attributes:
        part: (K, N) to compute the share K, from 1 to N, of the states, for no training in this process; or None.
    """

    part: Optional[Tuple[int, int]] = None

    def __init__(self, cfg: BertFusedTranslationConfig, model: Any, on_cpu: bool = False) -> None:
        self._directory = given_path(str(cfg.bert_cache))
        self._dtype = str(cfg.bert_cache_dtype)
        self._on_cpu = on_cpu
        self._bert: FrozenBert = model.encoder.bert
        self._bridge = model.encoder.bridge
        self._layers = str(model.cfg.bert_layer)
        self._identity = describe_identity(self._bert)
        self._folder = self._directory / f"{identity_fingerprint(self._identity)[:32]}-{self._dtype}"
        warn_of_small_shared_memory()

    def use_for(self, dataset: BertPairDataset, name: str) -> None:
        """Let *dataset* take its states from the cache; what the cache does not have yet is computed and written.

        Its folder begins with *name*, that of its split and language, such as ``train.en``.

        Raises:
            BertFusedError: the directory cannot be used.
        """
        pieces = dataset.word_pieces
        states = CachedStates(self._folder / f"{name}-{pieces.digest}", pieces, self._bert.state_dim, self._dtype)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            states.remove_damaged()
            rank, ranks = rank_in(self._folder)
            if rank == 0:
                self._describe()
            if self.part is not None:
                rank, ranks = self.part[0] - 1, self.part[1]
            states.add_missing(self._load_bert, rank, ranks, wait=self.part is None)
        except (OSError, SafetensorError) as error:
            raise BertFusedError(
                f"--bert-cache {self._directory} cannot be used ({error}); give a directory that can be written, on a "
                "disk with room, or one that has all states of this run, or leave the flag out"
            ) from error
        dataset.use_states(states)

    def _describe(self) -> None:
        """Write which BERT the folder is for, if it does not say so, and log which others have the same weights."""
        if read_description(self._folder) is not None:
            return
        description = {**self._identity, "number format": self._dtype, BERT_NAME: self._bert.name}
        with written_whole(self._folder / _DESCRIPTION) as new:
            new.write_text(json.dumps(description, indent=1), encoding="utf-8")
        for other in folders_of_berts(self._directory):
            theirs = read_description(other) or {}
            differences = "; ".join(
                f"{name} {json.dumps(theirs.get(name))} there, {json.dumps(value)} here"
                for name, value in description.items()
                if name != BERT_NAME and theirs.get(name) != value  # the same weights may lie elsewhere
            )
            if differences and theirs.get("weights") == description["weights"]:
                logger.info(
                    f"BERT cache: {other} holds states of the same weights and is not used, since this differs: "
                    f"{differences}"
                )

    def _load_bert(self) -> ComputeStates:
        """Load BERT once more, in full precision, whatever the model runs in; on a GPU if there is one."""
        device = torch.device("cuda" if torch.cuda.is_available() and not self._on_cpu else "cpu")
        bert = FrozenBert.from_pretrained(self._bert.name, self._layers).to(device)

        def states(bert_tokens: Tensor) -> Tensor:
            bert_tokens = bert_tokens.to(device)
            return bert(bert_tokens, self._bridge.segments(bert_tokens))[0].cpu()

        return states


def folders_of_berts(directory: Path) -> List[Path]:
    """Return the folders of all BERTs in *directory*.

    Raises:
        BertFusedError: there are none.
    """
    found = sorted(path for path in directory.glob("*-*") if path.is_dir() and _NAME.fullmatch(path.name))
    if not found:
        raise BertFusedError(
            f"{directory} must be a directory that --bert-cache has filled, and it holds no states of any BERT; give "
            "the directory of --bert-cache"
        )
    return found


def read_description(folder: Path) -> Optional[Dict[str, Any]]:
    """Return the description in *folder*, or None if it has none that can be read."""
    with suppress(OSError, ValueError):
        return dict(json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8")))
    return None


def warn_of_small_shared_memory() -> None:
    """Warn, with the remedy, if the shared memory is too small for batches of BERT's states."""
    with suppress(OSError):  # a system may have none
        size = shutil.disk_usage(SHARED_MEMORY).total
        if size < _ENOUGH:
            logger.warning(
                f"{SHARED_MEMORY} has only {size / 2**20:,.0f} MiB, and worker processes pass batches with BERT's "
                "states through it; if the run ends with a bus error, or with 'unable to write to file', start the "
                "container with --shm-size 2g or --ipc=host, or give --num-workers 0"
            )
