#!/usr/bin/env python
"""Draws what one sentence's translation attends to: source tokens and BERT's word pieces.

scripts/plot_attention.py data-bin --path checkpoint_best.pt --split test --index 3 --output attention.png
"""

import argparse
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, List

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from fairseq import checkpoint_utils, utils
from fairseq.data.data_utils import collate_tokens
from matplotlib.axes import Axes
from torch import Tensor

import bert_fused_plugin  # noqa: F401  registers the architectures
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel


def main(args: argparse.Namespace) -> None:
    model, task = load(args)
    dataset = task.dataset(args.split)
    if not 0 <= args.index < len(dataset):
        raise BertFusedError(f"--index must be in [0, {len(dataset) - 1}] for {args.split!r}, got {args.index}")
    sample = dataset.collater([dataset[args.index]])
    hypothesis = translate(model, task, sample, args.beam)
    net_input = sample["net_input"]
    src_tokens, bridge = net_input["src_tokens"], model.encoder.bridge
    bert_tokens = net_input.get("bert_tokens")
    if bert_tokens is None and bridge is not None:
        bert_tokens = bridge.bert_tokens(src_tokens)
    options = {} if args.layer is None else {"alignment_layer": args.layer}
    with torch.no_grad():
        prev_output_tokens = collate_tokens([hypothesis], task.target_dictionary.pad(), move_eos_to_beginning=True)
        encoder_out = model.encoder(src_tokens, bert_tokens=bert_tokens)
        _, extra = model.decoder(prev_output_tokens, encoder_out=encoder_out, **options)

    rows = symbols(task.target_dictionary, hypothesis)
    maps = []
    if extra["attn"][0] is not None:
        maps.append(("encoder attention", symbols(task.source_dictionary, src_tokens[0]), extra["attn"][0][0]))
    if extra["bert_attn"][0] is not None:
        maps.append(("BERT attention", bridge.pieces(bert_tokens[0].tolist()), extra["bert_attn"][0][0]))
    if not maps:
        raise BertFusedError(f"--path {args.path}: this model has no attention to draw")
    width = sum(len(columns) for _, columns, _ in maps)
    figure, axes = plt.subplots(
        1,
        len(maps),
        squeeze=False,
        figsize=(3 + 0.45 * width, 2.2 + 0.36 * len(rows)),
        width_ratios=[len(columns) for _, columns, _ in maps],
        layout="constrained",
    )
    for axis, (title, columns, weights) in zip(axes[0], maps):
        draw(axis, title, rows, columns, weights)
    axes[0][0].set_ylabel("translation")
    figure.savefig(args.output, dpi=120)
    print(f"source:      {task.source_dictionary.string(src_tokens[0], bpe_symbol='@@ ')}")
    print(f"translation: {task.target_dictionary.string(hypothesis, bpe_symbol='@@ ')}")
    print(f"written:     {args.output}")


def load(args: argparse.Namespace) -> Any:
    """Return the model, in evaluation mode, and its task with the split loaded."""
    if not Path(args.path).is_file():
        raise BertFusedError(f"--path {args.path}: no such checkpoint")
    # what training was given may lie on another machine
    overrides = {"data": args.data, "bert_text": None, "bert_cache": None, "bert_documents": None}
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([args.path], arg_overrides=overrides)
    if not isinstance(models[0], (BertFusedModel, GruModel)):
        raise BertFusedError(f"--path {args.path} is a {type(models[0]).__name__}, no model of bert_fused_plugin")
    depth = models[0].decoder.num_layers if isinstance(models[0], BertFusedModel) else 1
    if args.layer is not None and not -depth <= args.layer < depth:
        raise BertFusedError(f"--layer must be in [0, {depth - 1}], got {args.layer}")
    task.load_dataset(args.split, task_cfg=cfg.task)
    return models[0].eval(), task


def translate(model: Any, task: Any, sample: Any, beam: int) -> Tensor:
    """Return the ids of the best hypothesis, (T,), ending in eos."""
    generator = task.build_generator([model], SimpleNamespace(beam=beam))
    with torch.no_grad():
        return task.inference_step(generator, [model], sample)[0][0]["tokens"].cpu()


def symbols(dictionary: Any, tokens: Tensor) -> List[str]:
    return [dictionary[int(token)] for token in utils.strip_pad(tokens, dictionary.pad())]


def draw(axis: Axes, title: str, rows: List[str], columns: List[str], weights: Tensor) -> None:
    """Draw *weights*, (T, S or L): one row a target token, one column a source token."""
    axis.imshow(weights.float().numpy(), cmap="Blues", vmin=0, aspect="auto")
    axis.set_title(title)
    axis.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(rows)), rows)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="directory of fairseq-preprocess")
    parser.add_argument("--path", required=True, help="checkpoint of a BERT-fused or recurrent model")
    parser.add_argument("--split", default="test", help="default: %(default)s")
    parser.add_argument("--index", type=int, default=0, help="number of the sentence, from 0")
    parser.add_argument("--layer", type=int, help="decoder layer, from 0; default: the last")
    parser.add_argument("--beam", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--output", required=True, help="PNG, SVG or PDF file to write")
    return parser.parse_args()


if __name__ == "__main__":
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    main(parse_args())
