"""The pages of the documentation, and the blocks of code in them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import List

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "examples").rglob("README.md"),
    ]
)


@dataclass(frozen=True)
class Block:
    """A fenced block of code.

    Attributes:
        page: its page, relative to the repository.
        line: the line of the page that it begins in, for messages.
        language: ``bash``, ``python``, or "".
        mark: what the comment in the line before says: ``test``, ``not run: REASON``, or "".
        code: its lines.
    """

    page: str
    line: int
    language: str
    mark: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def text_of(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> List[Block]:
    """Return the fenced blocks of a page, in their order."""
    text = text_of(page)
    found = re.finditer(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(page, text.count("\n", 0, match.start()) + 1, match[2], match[1] or "", match[3]) for match in found]
