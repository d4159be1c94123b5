"""The models that benchmark.py measures, in fairseq's own trainer and generator."""

import argparse
import ctypes
import gc
import io
import itertools
import logging
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from benchmark_data import Batch
from fairseq import options as fairseq_options
from fairseq import tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models.lstm import lstm_wiseman_iwslt_de_en
from fairseq.trainer import Trainer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

import bert_fused_plugin  # noqa: F401  registers the architectures
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.cached_states import CachedStates
from bert_fused_plugin.data.collate import collate_bert_tokens
from bert_fused_plugin.data.word_pieces import WordPieces
from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder
from bert_fused_plugin.tasks.ensembles import reads_bert

SIZES = {  # layers, width, inner width, heads; of both sides
    "tiny": (4, 128, 256, 4),
    "iwslt": (6, 512, 1024, 4),
    "base": (6, 512, 2048, 8),
}


@dataclass(frozen=True)
class System:
    """One of the models that are compared: its flags of ``fairseq-train``, and what it reads of the batches."""

    flags: Tuple[str, ...]
    reads_bert: bool = False
    cached: bool = False
    bf16: bool = False


def in_bf16(systems: Dict[str, System]) -> Dict[str, System]:
    """Return *systems* that compute in bfloat16, as fairseq-generate does with --bf16, by name."""
    return {f"{name}-bf16": replace(system, bf16=True) for name, system in systems.items()}


def with_maps(systems: Dict[str, System], maps: Sequence[str]) -> Dict[str, System]:
    """Return *systems*, and each of this package's once more with each of the *maps* of attention, by name."""
    own = {name: system for name, system in systems.items() if name.startswith(("bert_fused", "gru_"))}
    mapped = {
        f"{name}-{pi}": replace(system, flags=(*system.flags, "--attention-map", pi))
        for (name, system), pi in itertools.product(own.items(), maps)
    }
    return {**systems, **mapped}


def transformer_systems(size: str, bert_model: Optional[str], drop_nets: Sequence[str]) -> Dict[str, System]:
    """Return fairseq's transformer and the BERT-fused ones of *size*, by name."""
    layers, width, inner, heads = SIZES[size]
    sizes = ["--share-all-embeddings"]
    for side in ("encoder", "decoder"):
        sizes += [f"--{side}-layers", str(layers), f"--{side}-embed-dim", str(width)]
        sizes += [f"--{side}-ffn-embed-dim", str(inner), f"--{side}-attention-heads", str(heads)]
    stock = ["--task", "translation", "--criterion", "label_smoothed_cross_entropy"]
    ours = ["--task", "bert_fused_translation", "--criterion", "bert_fused_label_smoothed_cross_entropy"]
    result = {"transformer": System(("--arch", "transformer", *stock, *sizes))}
    for cached, rate in itertools.product((False, True), drop_nets):
        name = "bert_fused" + ("-cache" if cached else "") + (f"-p{rate}" if len(drop_nets) > 1 else "")
        flags = ("--arch", "bert_fused", *ours, *sizes, "--bert-model", str(bert_model), "--bert-drop-net", rate)
        result[name] = System(flags, reads_bert=True, cached=cached)
    return result


def recurrent_systems() -> Dict[str, System]:
    """Return fairseq's lstm, with a bidirectional encoder, and the GRU models of the same sizes, by name."""
    stock = argparse.Namespace()
    lstm_wiseman_iwslt_de_en(stock)
    shared = ["--task", "translation", "--dropout", str(stock.dropout)]
    for name in (
        "encoder_layers", "encoder_embed_dim", "encoder_hidden_size",
        "decoder_layers", "decoder_embed_dim", "decoder_hidden_size", "decoder_out_embed_dim",
    ):  # fmt: skip
        shared += [f"--{name.replace('_', '-')}", str(vars(stock)[name])]
    lstm = ["--criterion", "label_smoothed_cross_entropy", "--encoder-bidirectional"]
    ours = ["--criterion", "bert_fused_label_smoothed_cross_entropy"]
    return {
        "lstm": System(("--arch", "lstm_wiseman_iwslt_de_en", *lstm, *shared)),
        "gru_bahdanau": System(("--arch", "gru_bahdanau", *ours, *shared)),
        "gru_dot": System(("--arch", "gru_dot", *ours, *shared)),
    }


def batches_of(system: System, batches: Sequence[Batch]) -> List[Batch]:
    """Return *batches* with only what *system* reads of them."""
    unread = {key for key, read in (("bert_tokens", system.reads_bert), ("bert_out", system.cached)) if not read}
    return [
        {**batch, "net_input": {key: value for key, value in batch["net_input"].items() if key not in unread}}
        for batch in batches
    ]


def load_encoder(options: argparse.Namespace, data_bin: str) -> BertFusedEncoder:
    """Return an encoder with BERT, in full precision on the device, and with the bridge."""
    system = transformer_systems("tiny", options.bert_model, ["1.0"])["bert_fused"]
    cfg = fairseq_config(system, options, data_bin)
    encoder: BertFusedEncoder = tasks.setup_task(cfg.task).build_model(cfg.model).encoder
    encoder.bert.to(options.device)
    return encoder


def fairseq_config(system: System, options: argparse.Namespace, data_bin: str) -> Any:
    """Return the configuration that fairseq-train makes of the flags of *system*."""
    flags = [
        data_bin, "--source-lang", options.source_lang, "--target-lang", options.target_lang, *system.flags,
        "--label-smoothing", "0.1", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.0001",
        "--clip-norm", "1.0", "--max-tokens", str(options.max_tokens), "--seed", str(options.seed),
        *(["--cpu"] if options.device == "cpu" else []), *(["--fp16"] if options.fp16 else []),
    ]  # fmt: skip
    parser = fairseq_options.get_training_parser()
    return convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, input_args=flags))


class Training:
    """fairseq's trainer with the model of *system*; `step` is all that fairseq-train does for a batch."""

    def __init__(self, system: System, options: argparse.Namespace, data_bin: str) -> None:
        cfg = fairseq_config(system, options, data_bin)
        utils.set_torch_seed(options.seed)
        task = tasks.setup_task(cfg.task)
        self.model = task.build_model(cfg.model)
        self.trainer = Trainer(cfg, task, self.model, task.build_criterion(cfg.criterion))
        self.trainer.cuda_env = None  # with it, a step resets the peak of the memory used
        self.loss = float("nan")
        self.num_trained: Optional[int] = None

    def step(self, batch: Batch) -> None:
        """Forward, loss, backward, clipping, Adam."""
        logged = self.trainer.train_step([batch], raise_oom=True)
        if logged is not None:  # None: a step that overflowed in half precision
            self.loss = float(logged["loss"])
            if self.num_trained is None:
                self.num_trained = sum(p.numel() for p in self.model.parameters() if p.grad is not None)

    def facts(self) -> Dict[str, Any]:
        file = io.BytesIO()
        torch.save(self.model.state_dict(), file)
        return {
            "trained parameters": self.num_trained,
            "checkpoint MB": file.tell() / 1e6,
            "updates": self.trainer.get_num_updates(),
            "last loss": self.loss,
        }


class Decoding:
    """fairseq's beam search with an untrained model, each hypothesis of which has *length* tokens and eos."""

    def __init__(self, system: System, options: argparse.Namespace, data_bin: str) -> None:
        cfg = fairseq_config(system, options, data_bin)
        utils.set_torch_seed(options.seed)
        self.task = tasks.setup_task(cfg.task)
        model = self.task.build_model(cfg.model)
        if system.bf16:
            model.bfloat16()
        elif options.fp16:
            model.half()
        self.model = model.to(options.device).eval()
        self.cuda = options.device == "cuda"
        self.model.prepare_for_inference_(cfg)

    def generator(self, length: int) -> Any:
        return self.task.build_generator(
            [self.model], argparse.Namespace(beam=5, max_len_a=0, max_len_b=length, min_len=length)
        )

    def translate(self, generator: Any, batch: Batch) -> int:
        """Translate *batch* and return the number of tokens of the best hypotheses."""
        batch = utils.move_to_cuda(batch) if self.cuda else batch
        if reads_bert(self.model):
            self.model.encoder.bert.state_cache.clear()  # the sentences come again in each round; a user's do not
        hypotheses = self.task.inference_step(generator, [self.model], batch)
        return sum(len(best[0]["tokens"]) for best in hypotheses)


class StatesOnDisk:
    """Four ways to get BERT's states for the sentences of *dataset*; each returns the amount of its work."""

    def __init__(self, dataset: BertPairDataset, bert: FrozenBert, options: argparse.Namespace, directory: str) -> None:
        self.bert, self.options, self.directory = bert, options, directory
        groups = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=options.max_tokens)
        self.batches = [[dataset.bert_tokens(i) for i in group] for group in groups]
        self.folder: Optional[tempfile.TemporaryDirectory[str]] = None

    def forward(self) -> Dict[str, float]:
        """Run BERT on the batches."""
        sizes = [len(self._run(collate_bert_tokens(batch))) for batch in self.batches]
        return {"sentences": sum(sizes), "word pieces": sum(len(row) for batch in self.batches for row in batch)}

    def build(self) -> Dict[str, float]:
        """Run BERT and write its states to a new directory; the one before is removed."""
        if self.folder is not None:
            self.folder.cleanup()
        self.folder = tempfile.TemporaryDirectory(dir=self.directory)
        self.pieces = WordPieces.of([row for batch in self.batches for row in batch])
        self._states().add_missing(lambda: lambda bert_tokens: self._run(bert_tokens).cpu(), 0, 1)
        return {"sentences": len(self.pieces), "word pieces": len(self.pieces.pieces)}

    def open(self) -> Dict[str, float]:
        """Open the files, which a run of fairseq-train does once."""
        self.states = self._states()
        self.states.remove_damaged()
        return {"sentences": len(self.pieces)}

    def read(self) -> Dict[str, float]:
        """Make tensors of the states of the batches, on the device."""
        sentences = pieces = 0
        for batch in self.batches:
            states = [self.states[i] for i in range(sentences, sentences + len(batch))]
            sentences += len(pad_sequence(states, batch_first=True).to(self.options.device))
            pieces += sum(len(state) for state in states)
        return {"sentences": sentences, "word pieces": pieces}

    def bytes_per_sentence(self) -> float:
        files = [file for file in Path(self.folder.name).rglob("*") if file.is_file()]
        return sum(file.stat().st_size for file in files) / len(self.pieces)

    def _run(self, bert_tokens: Tensor) -> Tensor:
        return self.bert(bert_tokens.to(self.options.device))[0]

    def _states(self) -> CachedStates:
        return CachedStates(Path(self.folder.name) / "states", self.pieces, self.bert.state_dim, "fp16")


def peak_memory(system: System, options: argparse.Namespace, data_bin: str, batches_file: str) -> Dict[str, float]:
    """Return the memory in MiB before the first of the training steps, and at its highest during them.

    On the CPU it is the resident memory of this process, which must have done nothing else.  getrusage's
    ru_maxrss is of no use: it starts at that of the process that started this one, and cannot be reset.
    """
    set_up(options)
    logging.disable(logging.WARNING)  # the parent has shown them
    batches = torch.load(batches_file)
    training = Training(system, options, data_bin)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() / 2**20
    else:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what is free already would hide what a step takes
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM = VmRSS
        before = _resident("VmRSS")
    for batch in batches:
        training.step(batch)
    peak = torch.cuda.max_memory_allocated() / 2**20 if options.device == "cuda" else _resident("VmHWM")
    return {"before MiB": before, "peak MiB": peak, "difference MiB": peak - before}


def set_up(options: argparse.Namespace) -> None:
    """Prepare this process."""
    logging.disable(logging.INFO)
    if options.threads:
        torch.set_num_threads(options.threads)


def _resident(field: str) -> float:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) / 1024
