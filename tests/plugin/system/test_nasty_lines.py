"""Whatever a line holds, one translation comes out for it, in order, and its neighbours do not change it."""

import codecs
import random

import pytest
from helpers import WORDS, framed, framed_ids
from hypothesis import given, settings
from hypothesis import strategies as st
from in_process import Printed

NASTY = [
    "", " ", "\t", "\u00a0\u3000", "\u200b", "\u200c\u200d", "\ufeff", "zzz qqq", "\x00", "\x01\x02\x1b[31m\x7f",
    "the\x00dog", "\x0b", "\x0c", "\x1c\x1d\x1e", "\x85", "\u2028", "\u2029", "e\u0301\u0301\u0323", "\u0301",
    "مرحبا بالعالم",
    "\u202ethe dog\u202c", "שלום the", "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽", "🇩🇪" * 50, "\U0010ffff", "\ufffd", "𝔘𝔫𝔦", "ﬁ ﬃ ǆ",
    "İı", "ß ẞ",
    "@@", "@@ @@ ", "hou@@", "play@@ hou@@ se", "@@ se", "▁", "▁the ▁dog", "the▁dog", "[SEP]",
    "[CLS] the [SEP] dog [SEP]",
    "[PAD] [UNK] [MASK]", "</s>", "<s> the </s> dog", "<pad>", "<unk> <unk>", "##dog ##", "<<unk>>", "&apos; &amp; @-@",
    "the\u200bdog", "the" * 3000, "the dog " * 2500, "." * 600, "0 -1 1e309 NaN None",
    "%s %d {} ${HOME} $(true) `true`",
    "'; DROP TABLE t; --", "<script>alert(1)</script>", "\\n \\x00 \\", '"', "S-0\tx", "H-1\t-0.5\tthe", "| || |||",
]  # fmt: skip
# what ends a line: \n for all, \r for fairseq's own reading
LINES = st.lists(
    st.one_of(
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8),
        st.sampled_from([" ", "@@ ", "▁", "[SEP]", "</s>", "<pad>", "\u0301", "\u200d", *WORDS[:6]]),
    ),
    max_size=9,
).map("".join)


def mixture(count: int):
    """*count* lines: each of NASTY, and random pieces of these and of words."""
    rng = random.Random(3)
    pieces = [line for line in NASTY if len(line) < 60] + WORDS
    made = [
        "".join(rng.choice(pieces) + rng.choice(["", " ", "  "]) for _ in range(rng.randint(0, 9)))
        for _ in range(count)
    ]
    lines = (NASTY + made)[:count]
    rng.shuffle(lines)
    return lines


def whole(pieces, bridge):
    """Begins with [CLS], ends in [SEP], and has neither between: control tokens come from the bridge alone."""
    first, last = pieces[0], pieces[-1]
    inner = pieces[1:-1]
    return len(pieces) <= 32 and first != last and not {first, last} & set(inner)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=6))
def test_the_bridge_takes_any_text_and_ids(bridge, dictionary, lines):
    encoded = framed(bridge, lines)
    ids = [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
    from_ids = framed_ids(bridge, [sentence.tolist() for sentence in ids])
    assert len(encoded) == len(from_ids) == len(lines)
    assert all(whole(pieces, bridge) for pieces in encoded + from_ids)
    assert encoded == [framed(bridge, [line])[0] for line in lines]


@pytest.mark.timeout(1500)
def test_as_many_lines_come_out_as_went_in_whatever_the_neighbours(workspace, soak):
    lines = mixture(soak.amount(150, 10_000))
    text = "".join(f"{line}\n" for line in lines)
    options = ["--max-len-b", "4", "--beam", "2", "--skip-invalid-size-inputs-valid-test"]
    together, other = (
        Printed(workspace.interactive(text, *options, "--buffer-size", size, timeout=900).stdout)
        for size in ("64", "7")
    )
    assert list(together.all("H")) == list(range(len(lines)))
    assert together.tokens() == other.tokens()
    assert together.scores() == pytest.approx(other.scores(), abs=1e-5)
    soak.figure(f"{len(lines):,} lines: as many translations, in order, the same in buffers of 64 and of 7")


def test_generate_keeps_every_line_of_a_file(workspace, tmp_path):
    lines = [line for line in NASTY if len(line) < 5000]
    for lang in ("en", "de"):
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / f"nasty.{lang}").write_bytes(text.encode("utf-8"))
    workspace.run(
        "fairseq-preprocess", "-s", "en", "-t", "de", "--srcdict", f"{workspace.data}/dict.en.txt",
        "--tgtdict", f"{workspace.data}/dict.de.txt", "--testpref", tmp_path / "nasty", "--destdir", tmp_path / "bin",
    )  # fmt: skip
    out = Printed(workspace.generate("--max-len-b", "4", "--beam", "2", data=tmp_path / "bin").stdout)
    assert list(out.all("H")) == list(range(len(lines)))


@pytest.mark.parametrize("from_file", [False, True])
def test_bytes_that_are_no_utf8_lose_no_line(workspace, tmp_path, from_file):
    """Unpaired surrogates and stray bytes, as they come from other encodings, after a byte order mark."""
    lines = [b"the dog", b"\xed\xa0\x80", b"caf\xe9", b"\xff\xfe", b"the \xc3", b"a man"]
    content = codecs.BOM_UTF8 + b"".join(line + b"\n" for line in lines)
    (tmp_path / "text").write_bytes(content)
    source = ["--input", tmp_path / "text"] if from_file else []
    text = "" if from_file else content.decode("utf-8", "surrogateescape")
    out = Printed(workspace.interactive(text, "--max-len-b", "4", *source).stdout)
    assert list(out.all("H")) == list(range(len(lines)))
    assert out.best("S")[0] == "the dog"
