"""The pages of the documentation, their blocks of code, and the tables made from the code (run it to write these)."""

import inspect
import re
import shlex
from dataclasses import dataclass, fields
from enum import Enum
from importlib import import_module
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


MADE = ["docs/flags.md", "docs/python_api.md"]  # pages with tables that are made from the code


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    page: str  # relative to the repository
    line: int  # of the page, that the block begins in, for messages
    language: str  # ``bash``, ``python``, or ""
    mark: str  # what the comment in the line before says: ``test``, ``define``, ``not run: REASON``, or ""
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
    defined = re.findall(r"""^(\w+)=(["'])(.*?)\2$""", definitions(), re.MULTILINE | re.DOTALL)
    for name, _, value in defined:
        words = value.replace("\\\n", " ").split()
        code = code.replace(f"${name} ", f"{shlex.join(words)} ")
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


def argument_table(function: Any) -> str:
    """Return the table of the arguments of *function*, from its signature and its docstring."""
    rows = ["| argument | default | meaning |", "| --- | --- | --- |"]
    meanings = dict(re.findall(r"^ {4}(\w+): (.*)$", inspect.getdoc(function), re.MULTILINE))
    for name, parameter in inspect.signature(function).parameters.items():
        given = f"`{name}`" if parameter.kind is not parameter.VAR_KEYWORD else f"`**{name}`"
        default = "" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        rows.append(f"| {given} | {default} | {meanings[name]} |".replace("|  |", "| |"))
    return "\n".join(rows)


def class_table(package: str) -> str:
    """Return the table of the public torch modules in *package*, with the first sentences of their docstrings."""
    rows = ["| class | what it is |", "| --- | --- |"]
    for file in sorted((ROOT / package.replace(".", "/")).glob("*.py")):
        module = import_module(f"{package}.{file.stem}")
        for name, found in sorted(vars(module).items()):
            if hasattr(found, "register_buffer") and found.__module__ == module.__name__ and name[0] != "_":
                sentence = found.__doc__.split("\n\n")[0].replace("``", "`")
                sentence = re.sub(r"\*(\w+)\*", r"`\1`", " ".join(sentence.split())).replace(" * ", r" \* ")
                rows.append(f"| `{package.partition('.')[2]}.{file.stem}.{name}` | {sentence} |")
    return "\n".join(rows)


def with_tables(page: str) -> str:
    """Return the text of a page with the tables that follow from the specifications and from the docstrings."""
    from bert_fused_plugin.bert.flags import BertFlags
    from bert_fused_plugin.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyConfig
    from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
    from bert_fused_plugin.models.gru_bahdanau.config import GruConfig
    from bert_fused_plugin.models.hub import load_hub
    from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig

    tables = {
        "Flags of the BERT-fused models": flag_table(BertFusedConfig),
        "Flags of the task": flag_table(BertFusedTranslationConfig),
        "Flags of the recurrent models": flag_table(GruConfig, *BertFlags.flags()),
        "The criterion": flag_table(LabelSmoothedCrossEntropyConfig),
        "Translating": argument_table(load_hub),
        "Parts of the models": class_table("bert_fused_plugin.modules"),
    }
    for heading, table in tables.items():
        before, found, after = page.partition(f"\n## {heading}\n")
        page = before + found + re.sub(r"(^\|.*\n)+", lambda _, table=table: f"{table}\n", after, count=1, flags=re.M)
    return page


if __name__ == "__main__":
    for page in MADE:
        (ROOT / page).write_text(with_tables(text_of(page)), encoding="utf-8")
