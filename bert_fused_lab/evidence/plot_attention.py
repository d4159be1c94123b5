"""Draws what the translation of one sentence attends to: the words of the source, and the words that BERT reads.

bert-fused-attention data-bin --path checkpoint_best.pt --subset test --index 3 --output attention.png

The command also prints the alignment (source-target, by attention), the entropy of the attention in each decoder layer,
in bits and in % of the largest possible entropy (a dash stands for a layer without such attention), and for
--attention-map entmax the alpha that each head has learned.  The command says so if attention is so even that map and
alignment mean nothing: if its entropy is 95 % or more of the largest possible.
"""

import logging
from argparse import Namespace
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple

from matplotlib import font_manager, rc_context
from matplotlib.figure import Figure

from bert_fused_lab.arguments import given_path, number_errors, output_errors, parser_of, user_module
from bert_fused_lab.evidence.attention import BERT, SOURCE, AttentionMap, attention_maps, evenness
from bert_fused_lab.evidence.runs import Place, RunFiles, load_run, require_context
from bert_fused_lab.evidence.translating import Decoding, Texts, searcher
from bert_fused_lab.output import written_output
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.modules.attention_map import learned_alphas

_ENDINGS = (".png", ".svg", ".pdf")


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command."""
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    args = parse_args(arguments)
    raise_all(output_errors(output=args.output) + number_errors(args, beam=1))
    if args.output.suffix not in _ENDINGS:
        raise BertFusedError(f"--output must end in .png, .svg or .pdf, got {args.output}; add one of these endings")
    run = load_run(
        RunFiles("--path", "", args.path), Place(args.data, [args.subset], args.bert_text, args.bert_documents)
    )
    require_context([run], args.bert_documents)
    size = len(run.task.dataset(args.subset))
    if not 0 <= args.index < size:
        raise BertFusedError(
            f"--index must be in [0, {size - 1}] for {args.subset!r}, got {args.index}; sentences are counted from 0"
        )
    sample = run.sample(args.subset, args.index)
    [tokens] = searcher(run, Decoding(beam=args.beam))(sample)
    texts = Texts(run.task, "auto", "none")
    subwords = ("none", "none") if args.subwords else (texts.source_words, texts.target_words)
    maps = attention_maps(run.model, run.task, sample, tokens, subwords)
    if not maps:
        raise BertFusedError(f"--path {args.path}: this model has no attention to draw; give a model with attention")
    depth = len(maps[0].layers)
    if args.layer is not None and not -depth <= args.layer < depth:
        raise BertFusedError(f"--layer must be in [{-depth}, {depth - 1}], got {args.layer}; layers are counted from 0")
    chosen = [(attention, attention.last() if args.layer is None else args.layer % depth) for attention in maps]
    chosen = [(attention, layer) for attention, layer in chosen if attention.layers[layer] is not None]
    labels = "".join(label for attention, _ in chosen for label in (*attention.rows, *attention.columns))
    families, missing = fonts(labels)
    with rc_context({"font.family": families}):
        draw(chosen, args.output, words=not args.subwords)
    print(f"source:      {texts.source(sample['net_input']['src_tokens'][0])}")
    print(f"translation: {texts.target(tokens)}")
    _print_figures(maps, chosen)
    for name, alphas in learned_alphas(run.model).items():
        print(f"alpha:       {name}: {' '.join(f'{alpha:.2f}' for alpha in alphas)}")
    if missing:
        print(f"no font:     {missing}: these characters are drawn as boxes; install a font that has them")
    print(f"written:     {args.output}")


def fonts(text: str) -> Tuple[List[str], str]:
    """Return installed fonts that have the characters of *text*, matplotlib's own first, and the characters of none."""
    families, missing = ["DejaVu Sans"], {character for character in text if character.isprintable()}
    for font in sorted(font_manager.fontManager.ttflist, key=lambda font: font.name != families[0]):
        if missing and font.style == "normal" and not font.name.startswith("Last Resort"):  # which has boxes for all
            loaded = font_manager.get_font(font.fname)
            characters = missing & set(map(chr, loaded.get_charmap())) if loaded.scalable else set()
            families += [font.name] if characters else []
            missing -= characters
    return list(dict.fromkeys(families)), "".join(sorted(missing))


def _print_figures(maps: List[AttentionMap], chosen: List[Tuple[AttentionMap, int]]) -> None:
    for attention, layer in chosen:
        if attention.kind == SOURCE:
            print(f"alignment:   {attention.pharaoh(layer)}")
    for attention in maps:
        figures = (f"{entropy.bits:.2f} ({entropy.share:.0%})" if entropy else "-" for entropy in attention.entropies)
        print(f"entropy:     {attention.kind}: {', '.join(figures)}")
    for warning in filter(None, (evenness(attention.kind, attention.entropies) for attention in maps)):
        print(f"too even:    {warning}")


def draw(maps: List[Tuple[AttentionMap, int]], path: Path, words: bool = True) -> None:
    """Draw the given layer of each map side by side into the file *path*; rows are of the target.

    Rows and columns are *words*, or else subwords.
    """
    widths = [len(attention.columns) for attention, _ in maps]
    size = (3 + 0.9 * len(maps) + 0.45 * sum(widths), 2.2 + 0.36 * len(maps[0][0].rows))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(maps), squeeze=False, gridspec_kw={"width_ratios": widths})[0]
    drawn: List[Any] = [attention.layers[layer] for attention, layer in maps]
    darkest = max(float(weights.max()) for weights in drawn)  # one scale for all, or an even map would look sharp
    for axis, (attention, layer) in zip(axes, maps):
        image = axis.imshow(attention.layers[layer], cmap="Blues", vmin=0, vmax=darkest, aspect="auto")
        figure.colorbar(image, ax=axis, label="largest weight among a word's subwords" if words else "weight")
        warning = "\n(so even that it means nothing)" if evenness(attention.kind, [attention.entropies[layer]]) else ""
        axis.set_title(f"attention to {'BERT' if attention.kind == BERT else 'the source'}, layer {layer + 1}{warning}")
        slanted = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
        axis.set_xticks(range(len(attention.columns)), attention.columns, **slanted, parse_math=False)
        axis.set_yticks(range(len(attention.rows)), attention.rows, parse_math=False)
    axes[0].set_ylabel("translation")
    with written_output(path) as new:
        figure.savefig(new, dpi=120)


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("data", help="directory of fairseq-preprocess")
    add("--path", type=given_path, required=True, help="checkpoint of this package, or of fairseq's transformer")
    add("--subset", default="test", help="name of the data set; default: %(default)s")
    add("--index", type=int, default=0, help="number of the sentence, counted from 0; default: %(default)s")
    add("--layer", type=int, help="number of the decoder layer, counted from 0; default: the last layer with attention")
    add("--bert-text", metavar="DIR", help="directory with the raw source text for BERT, as for the task")
    add("--bert-documents", metavar="DIR", help="directory with the lines where documents begin, as for the task")
    add("--subwords", action="store_true", help="show subwords instead of words")
    add("--beam", type=int, default=5, help="beam size; default: %(default)s")
    add("--output", type=given_path, required=True, help="PNG, SVG or PDF file to write")
    add("--user-dir", type=user_module, metavar="DIR", help="plug-in that has the architecture of a model")
    return parser.parse_args(argv)
