"""The report as an HTML page and as JSON, and how these files are written: whole, or not at all."""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from sacremoses import MosesDetokenizer

from bert_fused_plugin.checkpoints.origins import Origin, described
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.files import written_whole
from bert_fused_plugin.reports.charts import HEIGHT, WIDTH

FEW = 30  # BLEU says little about a group of fewer sentences


def render(report: Mapping[str, Any]) -> str:
    """Return the report as one HTML page, which needs no other file and no network."""
    environment = Environment(
        loader=PackageLoader("bert_fused_plugin.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    runs = report["runs"]
    if report["moses_escapes"]:
        report = _without_moses_escapes(report)
    return environment.get_template("report.html").render(
        report,
        names=[run["name"] for run in runs],
        depth=max((len(layers) for run in runs for layers in run["entropy"].values()), default=0),
        several=len(runs) > 1,
        origins={run["name"]: described([Origin(**origin) for origin in run["began_from"]]) for run in runs},
        few=FEW,
        width=WIDTH,
        height=HEIGHT,
    )


def to_json(report: Mapping[str, Any]) -> str:
    """Return all figures of the report as JSON; drawings and the weights of the heat maps are left to the page."""
    figures: Dict[str, Any] = {**report, "curves": report["curves"]["points"]}
    del figures["moses_escapes"]  # which the page alone undoes
    figures["attention"] = {
        number: [{key: value for key, value in found.items() if key != "percent"} for found in maps]
        for number, maps in report["attention"].items()
    }
    return json.dumps(figures, indent=1, ensure_ascii=False) + "\n"


def check_writable(paths: Sequence[Path]) -> None:
    """Check that *paths* can be written, before hours of work.

    Raises:
        BertFusedError: one of them cannot be written, or two are the same.
    """
    errors: List[str] = []
    if len({path.resolve() for path in paths}) < len(paths):
        errors.append(f"--output and --json are the same file, {paths[0]}; give two different files")
    for path in paths:
        if path.is_dir():
            errors.append(f"{path} cannot be written: it is a directory; give the name of a file")
            continue
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            errors.append(f"{path} cannot be written ({error.strerror}); give a file in a folder that can be written")
    raise_all(errors)


def write_together(texts: Mapping[Path, str]) -> None:
    """Write each text to its file; an earlier file stays as it is until all texts are on the disk.

    Raises:
        BertFusedError: one of the files cannot be written.
    """
    try:
        with ExitStack() as files:
            for path, text in texts.items():
                files.enter_context(written_whole(path)).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BertFusedError(
            f"{', '.join(map(str, texts))} cannot be written ({error}); give files in a folder "
            "that can be written, on a disk with room"
        ) from error


def _without_moses_escapes(report: Mapping[str, Any]) -> Dict[str, Any]:
    """Return *report* with the characters that Moses has escaped, such as ``&apos;``, as people write them."""
    plain = MosesDetokenizer().unescape_xml
    sentences = {
        number: {
            "source": plain(sentence["source"]),
            "reference": plain(sentence["reference"]),
            "translations": {
                name: {**found, "text": plain(found["text"])} for name, found in sentence["translations"].items()
            },
        }
        for number, sentence in report["sentence_texts"].items()
    }
    attention = {
        number: [{**found, **{side: list(map(plain, found[side])) for side in ("rows", "columns")}} for found in maps]
        for number, maps in report["attention"].items()
    }
    return {**report, "sentence_texts": sentences, "attention": attention}
