"""Text that a user types: a warning names unknown symbols and hyphens that do not fit, but not for each line."""

import logging
from types import SimpleNamespace

import pytest
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from helpers import dictionary_of, translation_task

from bert_fused_plugin.data.typed_text import TypedText, hyphens_are_split

NOT_SPLIT = dictionary_of("well@@", "-@@", "dressed", "men", "@-")


def moses(**options):
    return MosesTokenizer(MosesTokenizerConfig(source_lang="en", target_lang="en", **options))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (
            "The old man , The Dog xyz runs",
            "(50%) are *: 'The', 'Dog', 'xyz' (2 of them would be known in lower case); ",
        ),
        (" ".join(f"x{i}" for i in range(7)), "(100%) are *: 'x0', 'x1', 'x2', 'x3', 'x4', 'x5', ...; "),
        ("q" * 100_000, "(100%) are *: 'qqqqqqqqqqqq...qqqqqqqqqqqqq'; "),
    ],
)
def test_a_line_with_many_unknown_symbols_is_described(dictionary, caplog, line, named):
    typed = TypedText(dictionary)
    for _ in range(2):
        typed.check([line, "the old man", line], None)
    [record] = caplog.records
    said = f"symbols of a line {named}a line must be prepared".replace("*", "unknown to the source dictionary")
    assert said in record.getMessage()
    assert record.levelno == logging.WARNING


def test_one_unknown_symbol_in_twenty_is_none_too_many(dictionary, caplog):
    typed = TypedText(dictionary)
    typed.check([" ".join(["the"] * 19 + ["xyz"]), "", "the old man"], None)
    assert caplog.messages == []
    typed.check([" ".join(["the"] * 18 + ["xyz"])], None)
    assert "1 of the 19 symbols of a line (5%)" in caplog.text


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [
        (["well@@", "-@@", "dressed"], False),
        (["well-dressed", "men"], False),
        (["well-@@", "dressed"], False),
        (["\u2581well", "-", "dressed"], False),
        (["\u2581well-dressed"], False),
        (["well", "@-@", "-@@", "5"], True),
        (["\u2581well", "\u2581@-@", "-"], True),
        (["men", "-", "--", "-5"], None),
        (["\u2581men", "\u2581-", "\u2581--"], None),
    ],
)
def test_the_dictionary_shows_what_became_of_hyphens(symbols, expected):
    assert hyphens_are_split(dictionary_of(*symbols)) is expected


def test_hyphens_are_warned_of_once(caplog):
    typed = TypedText(NOT_SPLIT)
    for _ in range(2):
        typed.check(["men"], moses())
    assert [message[:31] for message in caplog.messages] == ["--tokenizer moses splits hyphen"]
    caplog.clear()
    TypedText(NOT_SPLIT).check(["men"], moses(moses_no_dash_splits=True))
    TypedText(NOT_SPLIT).check(["men"], None)
    assert caplog.messages == []


def test_the_tools_of_fairseq_interactive_read_plain_spaces():
    seen = []
    translation_task(NOT_SPLIT).get_interactive_tokens_and_lengths(
        ["men\u00a0men\tmen"], lambda line: seen.append(line) or ""
    )
    assert seen == ["men men men"]


def test_the_task_checks_the_lines_of_fairseq_interactive(caplog):
    task = translation_task(NOT_SPLIT)
    tokenizer = task.build_tokenizer(SimpleNamespace(tokenizer="moses", source_lang="en", target_lang="de"))
    tokens, lengths = task.get_interactive_tokens_and_lengths(["men", "well-dressed"], tokenizer.encode)
    assert [NOT_SPLIT.string(line, unk_string="?") for line in tokens] == ["men", "? ? dressed"]
    assert lengths == [2, 4]
    assert [message.split()[0] for message in caplog.messages] == ["--tokenizer", "2"]
    assert "2 of the 3 symbols of a line (67%) are unknown to the source dictionary: 'well', '@-@'" in caplog.text


def test_a_typed_symbol_of_fairseq_is_text_and_invisible_signs_are_nothing():
    text = TypedText(dictionary_of("the", "do@@", "g"))
    assert text.plain("a </s> b <unk> x<s> </s>.") == "a < /s> b < unk> x< s> </s>."
    assert [text.plain(line) for line in (" \t", "\u200b", "\ufeff", "\xad", "\u200ba")] == [""] * 4 + ["\u200ba"]
