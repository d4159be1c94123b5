"""The models that benchmark.py measures, in fairseq's own trainer and generator."""

import argparse
import io
import itertools
import logging
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from benchmark_data import Batch
from fairseq import options as fairseq_options
from fairseq import tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models.lstm import lstm_wiseman_iwslt_de_en
from fairseq.trainer import Trainer

import bert_fused_plugin  # noqa: F401  registers the architectures
from bert_fused_lab.recipe.settings import SIZES
from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder

CRITERION = ("--criterion", "bert_fused_label_smoothed_cross_entropy")


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


def with_variants(systems: Dict[str, System], values: Sequence[str], *flags: str, own: bool) -> Dict[str, System]:
    """Return *systems*, and each one, or each of this package's *own*, with *flags* and each of *values*."""
    varied = {
        f"{name}-{value}": replace(system, flags=(*system.flags, *flags, value))
        for (name, system), value in itertools.product(systems.items(), values)
        if not own or name.startswith(("bert_fused", "gru_"))
    }
    return {**systems, **varied}


def transformer_systems(size: str, bert_model: Optional[str], drop_nets: Sequence[str]) -> Dict[str, System]:
    """Return fairseq's transformer and the BERT-fused ones of *size*, by name."""
    shared = ("--share-all-embeddings", "--dropout", "0.1")
    stock = ("--task", "translation", "--criterion", "label_smoothed_cross_entropy")
    result = {"transformer": System((*SIZES[size].transformer.split(), *stock, *shared))}
    for cached, rate in itertools.product((False, True), drop_nets):
        name = "bert_fused" + ("-cache" if cached else "") + (f"-p{rate}" if len(drop_nets) > 1 else "")
        flags = ("--task", "bert_fused_translation", "--arch", SIZES[size].fused_arch, *CRITERION, *shared)
        of_bert = ("--bert-model", str(bert_model), "--bert-drop-net", rate)
        result[name] = System((*flags, *of_bert), reads_bert=True, cached=cached)
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
    return {
        "lstm": System(("--arch", "lstm_wiseman_iwslt_de_en", *lstm, *shared)),
        "gru_bahdanau": System(("--arch", "gru_bahdanau", *CRITERION, *shared)),
        "gru_dot": System(("--arch", "gru_dot", *CRITERION, *shared)),
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
    encoder.source.bert.to(options.device)
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
        hypotheses = self.task.inference_step(generator, [self.model], batch)
        return sum(len(best[0]["tokens"]) for best in hypotheses)


def set_up(options: argparse.Namespace) -> None:
    """Prepare this process."""
    logging.disable(logging.INFO)
    if options.threads:
        torch.set_num_threads(options.threads)
