"""``--bert-cache`` for the data sets of a task: opens the directory, and loads BERT for what is missing there.

The directory has a folder for each BERT, and in it one for each data set.  ``bert.json`` says which BERT it is, and has
the states of its probe.  If BERT computes other states today, it gets another folder.
"""

import hashlib
import json
import shlex
import sys
from itertools import count
from pathlib import Path
from typing import Any, Tuple

import torch
from fairseq.distributed.utils import get_global_world_size
from safetensors import SafetensorError
from torch import Tensor

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.source import BertSource, weights_fingerprint
from bert_fused_plugin.checkpoints.record import same_states
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.cached_states import CachedStates, ComputeStates
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import written_whole
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig

DESCRIPTION = "bert.json"


class BertCache:
    """The states of a model's frozen BERT in the directory of ``--bert-cache``; *on_cpu*, BERT uses no GPU."""

    part: Tuple[int, int] = (1, 1)  # (K, N) to compute only the share K of N, for no training in this process

    def __init__(self, cfg: BertFusedTranslationConfig, model: Any, on_cpu: bool = False) -> None:
        source: BertSource = model.encoder.source
        self._bert, self._bridge, self._layers = source.bert, source.bridge, str(model.cfg.bert_layer)
        self._directory = Path(str(cfg.bert_cache)).expanduser()  # the shell leaves the ~ of --bert-cache=~/DIR
        self._dtype, self._data = str(cfg.bert_cache_dtype), cfg.data
        self._on_cpu = on_cpu
        record = source.record.content
        self._weights, self._states = record["weights_in_layers"], record["states"]
        fingerprint = hashlib.sha256(f"{self._weights} {record['configuration']}".encode())
        layers = "+".join(map(str, self._bert.layers))
        # with two types, which are not the tokenizer's, earlier versions have computed other states
        types = "-one-type" if self._bert.reads_segments and self._bridge.context and not self._bridge.has_types else ""
        self._name = f"{fingerprint.hexdigest()[:32]}-{layers}-{self._dtype}{types}"

    def use_for(self, dataset: BertPairDataset, name: str) -> None:
        """Let *dataset*, whose *name* is such as ``train.en``, take its states from the cache, and add missing ones.

        Raises:
            BertFusedError: the directory cannot be used, or several processes train and states are missing.
        """
        pieces = dataset.word_pieces
        try:
            folder = self._folder()
            states = CachedStates(folder / f"{name}-{pieces.digest}", pieces, self._bert.state_dim, self._dtype)
            if get_global_world_size() == 1:
                self._describe(folder)
                states.add_missing(self._load_bert, self.part)
            elif states.missing():
                raise BertFusedError(
                    f"--bert-cache {self._directory} must have all states of {name} before several processes train, "
                    f"and some are missing; run, once: {self._build_command()}"
                )
        except (OSError, json.JSONDecodeError, SafetensorError) as error:
            raise BertFusedError(
                f"--bert-cache {self._directory} cannot be used ({error}); give a directory that can be written, on a "
                "disk with room, or one that has all states of this run, or leave the flag out (where a checkpoint has "
                "set it: --model-overrides \"{'bert_cache': None, 'bert_cache_dtype': 'fp16'}\")"
            ) from error
        dataset.states = states

    def _build_command(self) -> str:
        """Return the command that computes what is missing; it takes all flags of fairseq-train."""
        flags, more = sys.argv[1:], ""
        if not any(flag.startswith("--bert-cache") for flag in flags):  # of fairseq-hydra-train
            flags = [self._data, "--bert-model", self._bert.name, "--bert-layer", self._layers]
            flags += ["--bert-cache", str(self._directory), "--bert-cache-dtype", self._dtype]
            more = " (and the other settings about the data and BERT, as flags)"
        return shlex.join(["bert-fused-cache", "build", *flags]) + more

    def _folder(self) -> Path:
        """Return the first folder of BERT's name that has states as BERT computes them now, or none yet."""
        for number in count(1):
            folder = self._directory / (self._name if number == 1 else f"{self._name}-{number}")
            if not (folder / DESCRIPTION).exists():
                return folder
            states = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8")).get("states")
            if states is not None and same_states(states, self._states):
                return folder
        raise AssertionError

    def _describe(self, folder: Path) -> None:
        if not (folder / DESCRIPTION).exists():
            folder.mkdir(parents=True, exist_ok=True)
            with written_whole(folder / DESCRIPTION) as new:
                description = {"--bert-model": self._bert.name, "layers": self._bert.layers, "states": self._states}
                new.write_text(json.dumps(description), encoding="utf-8")

    def _load_bert(self) -> ComputeStates:
        """Load BERT once more, in full precision, whatever the model runs in; on a GPU if there is one."""
        device = torch.device("cuda" if torch.cuda.is_available() and not self._on_cpu else "cpu")
        bert = FrozenBert.from_pretrained(self._bert.name, self._layers)
        if weights_fingerprint(bert) != self._weights or not same_states(bert.probe(), self._states):
            raise BertFusedError(f"--bert-model {self._bert.name} has changed since this run began; start it again")
        bert.to(device)

        def states(bert_tokens: Tensor) -> Tensor:
            bert_tokens = bert_tokens.to(device)
            return bert(bert_tokens, self._bridge.segments(bert_tokens))

        return states
