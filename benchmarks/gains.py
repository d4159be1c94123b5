#!/usr/bin/env python
"""Draws docs/pictures/gains.svg: BERT's gain over the control, trained to the end, for each number of sentence pairs.

docs/evidence/study/gains.json has the gains in BLEU with their 95 % intervals.
"""

import json
import math
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PICTURE = DOCS / "pictures" / "gains.svg"
LEFT, RIGHT, TOP, BOTTOM = 60, 600, 20, 250  # of the axes
FEWEST, MOST, HIGHEST = 1500, 80_000, 5  # pairs, and BLEU

_HEAD = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 310" width="640" height="310"
  role="img" aria-labelledby="what">
  <title id="what">BERT's gain over the control, in BLEU with 95 % intervals, by the number of sentence pairs</title>
  <style>
    text {{ font: 14px system-ui, "DejaVu Sans", Arial, sans-serif; fill: #1c2430; text-anchor: middle }}
    .page {{ fill: #ffffff }}
    .grid {{ stroke: #b9c1cc; stroke-width: 1 }}
    .interval {{ stroke: #1f6fb2; stroke-width: 2.5 }}
    circle {{ fill: #1f6fb2 }}
    @media (prefers-color-scheme: dark) {{
      text {{ fill: #e6e9ee }}
      .page {{ fill: #14181f }}
      .grid {{ stroke: #465162 }}
      .interval {{ stroke: #64aeea }}
      circle {{ fill: #64aeea }}
    }}
  </style>
  <rect class="page" width="640" height="310"/>
  <text x="{(LEFT + RIGHT) / 2:.0f}" y="300">sentence pairs</text>
  <text transform="rotate(-90 20 {(TOP + BOTTOM) / 2:.0f})" x="20" y="{(TOP + BOTTOM) / 2:.0f}">gain in BLEU</text>
"""


def picture() -> str:
    """Return the picture as SVG."""
    lines = [_HEAD]
    for bleu in range(HIGHEST + 1):
        lines.append(f'  <path class="grid" d="M{LEFT} {_y(bleu):.0f}H{RIGHT}"/>\n')
        lines.append(f'  <text x="{LEFT - 18}" y="{_y(bleu) + 5:.0f}">{bleu}</text>\n')
    for pairs in (2000, 5000, 10_000, 20_000, 50_000):
        lines.append(f'  <text x="{_x(pairs):.1f}" y="{BOTTOM + 22}">{pairs:,}</text>\n')
    for gain in json.loads((DOCS / "evidence" / "study" / "gains.json").read_text(encoding="utf-8")):
        x, (low, high) = _x(gain["pairs"]), map(_y, gain["interval"])
        lines.append(f'  <path class="interval" d="M{x:.1f} {low:.1f}V{high:.1f}"/>\n')
        lines.append(f'  <circle cx="{x:.1f}" cy="{_y(gain["BLEU"]):.1f}" r="5"/>\n')
        lines.append(f'  <text x="{x:.1f}" y="{high - 7:.1f}">{gain["language"]}</text>\n')
    return "".join([*lines, "</svg>\n"])


def _x(pairs: int) -> float:
    return LEFT + (RIGHT - LEFT) * math.log(pairs / FEWEST) / math.log(MOST / FEWEST)


def _y(bleu: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * bleu / HIGHEST


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
