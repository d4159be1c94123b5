"""The report as an HTML page and as JSON."""

import json
from typing import Any, Dict, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from sacremoses import MosesDetokenizer

from bert_fused_plugin.checkpoints.origins import Origin, described
from bert_fused_plugin.reports.charts import HEIGHT, WIDTH

_unescape = MosesDetokenizer().unescape_xml
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
        texts = {key: _without_moses_escapes(report[key]) for key in ("sentence_texts", "attention")}
        report = {**report, **texts}
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


def _without_moses_escapes(value: Any) -> Any:
    """Return *value* with what Moses has escaped in its texts, such as ``&apos;``, as people write it."""
    if isinstance(value, dict):
        return {key: _without_moses_escapes(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_moses_escapes(each) for each in value]
    return _unescape(value) if isinstance(value, str) else value
