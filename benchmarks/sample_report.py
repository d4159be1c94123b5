#!/usr/bin/env python
"""Makes docs/sample_report.html and docs/pictures/report.png of the demo's report, after a change of the page.

scripts/demo.sh && python benchmarks/sample_report.py [DEMO_DIR]

The last line of the sample has digests of the page's template and of the picture, which a test compares.  The picture
is the top of the page in Chromium.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
SAMPLE, PICTURE = ROOT / "docs" / "sample_report.html", ROOT / "docs" / "pictures" / "report.png"
TEMPLATES = [ROOT / "bert_fused_lab" / "report" / "templates" / f"report.{kind}" for kind in ("css", "html", "js")]


def made_from() -> str:
    """Return the line that a sample of today ends with."""
    digests = [hashlib.sha256(b"".join(map(Path.read_bytes, paths))).hexdigest() for paths in (TEMPLATES, [PICTURE])]
    return "<!-- made from {} with the picture {} -->\n".format(*digests)


def main(demo: Path = Path("demo-out")) -> None:
    """Write the sample, without the names of this machine's folders, and draw its top."""
    page = (demo / "report.html").read_text(encoding="utf-8").replace(str(demo.resolve()), "demo-out")
    SAMPLE.write_text(page, encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=960,1260"]
    subprocess.run(["chromium", *flags, f"--screenshot={PICTURE}", SAMPLE.as_uri()], check=True, capture_output=True)
    Image.open(PICTURE).quantize(128, Image.Quantize.MAXCOVERAGE).save(PICTURE, optimize=True)
    SAMPLE.write_text(page + made_from(), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
