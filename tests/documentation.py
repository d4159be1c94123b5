"""The pages of the documentation, the blocks of code in them, and the tables of flags (run it to write them anew)."""

import re
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, List

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
        mark: what the comment in the line before says: ``test``, ``define``, ``not run: REASON``, or "".
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


def definitions() -> str:
    """Return the shell variables that the pages define, and that the blocks of all pages use."""
    return "".join(block.code for page in PAGES for block in blocks(page) if block.mark == "define")


def typed(code: str) -> str:
    """Return *code* with the variables of :func:`definitions` replaced, as the shell does it."""
    defined = re.findall(r'^(\w+)="([^"]*)"$', definitions(), re.MULTILINE)
    for name, value in defined:
        code = code.replace(f"${name} ", f"{value} ")
    return code


def flag_table(config: Any, *without: str) -> str:
    """Return the table of the flags of *config* in docs/flags.md, from their specifications; some stay out."""
    rows = ["| flag | default | values | meaning |", "| --- | --- | --- | --- |"]
    specified = config.flags()
    for field in fields(config):
        if "flag" not in field.metadata or field.name in without:
            continue
        flag = specified[field.name]
        values = flag.values
        if isinstance(field.type, type) and issubclass(field.type, Enum):
            values = ", ".join(f"`{choice}`" for choice in field.type)
        elif not values and flag.rule is not None:
            values = flag.rule.says.replace("must be ", "")
        conditions = [_code(where.says[3:]) for where in flag.where if where.says != "is for --bert-model"]
        default = flag.unset or ("none" if field.default is None else f"`{field.default}`")
        cells = [f"`--{field.name.replace('_', '-')}`", default, "; ".join([*filter(None, [values]), *conditions])]
        rows.append(f"| {' | '.join(cells)} | {_code(field.metadata['help'])} |".replace("|  |", "| |"))
    return "\n".join(rows)


def _code(sentence: str) -> str:
    sentence = re.sub(r"'([<.][^' ]*)'", r"`\1`", sentence)
    return re.sub(r"--[a-z][a-z-]+( [a-z]+(?=$))?", r"`\g<0>`", sentence)


def with_tables(page: str) -> str:
    """Return the text of docs/flags.md with the tables that follow from the specifications."""
    from bert_fused_plugin.bert.flags import BertFlags
    from bert_fused_plugin.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyConfig
    from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
    from bert_fused_plugin.models.gru_bahdanau.config import GruConfig
    from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig

    tables = {
        "Flags of the BERT-fused models": flag_table(BertFusedConfig),
        "Flags of the task": flag_table(BertFusedTranslationConfig),
        "Flags of the recurrent models": flag_table(GruConfig, *BertFlags.flags()),
        "The criterion": flag_table(LabelSmoothedCrossEntropyConfig),
    }
    for heading, table in tables.items():
        before, found, after = page.partition(f"\n## {heading}\n")
        page = before + found + re.sub(r"(^\|.*\n)+", lambda _, table=table: f"{table}\n", after, count=1, flags=re.M)
    return page


if __name__ == "__main__":
    (ROOT / "docs" / "flags.md").write_text(with_tables(text_of("docs/flags.md")), encoding="utf-8")
