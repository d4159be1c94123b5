"""What README and docs/ say is there: links, files, flags, commands; and README stays short."""

import ast
import json
import re
import shlex
import subprocess
from importlib import import_module
from importlib.metadata import distribution
from urllib.parse import unquote

import gains
import pytest
import sample_report
from documentation import MADE, PAGES, ROOT, blocks, text_of, typed, with_tables
from fairseq import options

import bert_fused_lab
import bert_fused_plugin

SHELL_BLOCKS = [block for page in PAGES for block in blocks(page) if block.language == "bash"]
PARSERS = {
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": lambda: options.get_generation_parser(interactive=True),
}
COMMANDS = {
    entry.name: import_module(entry.module).parse_args for entry in distribution("bert_fused_plugin").entry_points
}
PACKAGES = ("bert_fused_plugin", "bert_fused_lab", "fairseq_compat")
FOLDERS = (*PACKAGES, "benchmarks", "docs", "examples", "scripts", "tests")


def anchors(page):
    """Return the names that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(code):
    """Return the command lines of a shell script as lists of words."""
    for old, new in (("\\\n", " "), ("2>&1", ""), ("$(which fairseq-train)", "fairseq-train")):
        code = code.replace(old, new)
    lexer = shlex.shlex(re.sub(r" +#.*", "", code), posix=True, punctuation_chars=";|&<>\n")
    lexer.whitespace, lexer.whitespace_split = " \t", True
    found = [[]]
    for word in lexer:
        if set(word) <= set(";|&\n"):
            found.append([])
        else:
            found[-1].append(word)
    return [words[: next((i for i, word in enumerate(words) if word[0] in "<>"), None)] for words in found if words]


def test_readme_and_all_pages_together_are_short():
    assert len(text_of("README.md").splitlines()) <= 130
    assert sum(len(text_of(page).splitlines()) for page in PAGES if not page.startswith("examples")) <= 2000


def test_the_pages_say_version_and_licence_as_setup_does():
    version, licence = re.search(r'version="(.*?)".*license="(.*?)"', text_of("setup.py"), re.DOTALL).groups()
    assert f"version {version}, {licence} licence" in text_of("README.md")
    assert f"\nversion: {version}\n" in text_of("CITATION.cff")
    assert re.search(r"^## (\d\S+)", text_of("CHANGELOG.md"), re.MULTILINE)[1] == version


# the trainings of docs/evidence/study/settings.json in the rows of the tables
SYSTEMS = {
    "| transformer |": ["transformer-s1", "transformer-s2", "transformer-s3"],
    "| control, learning rate 0.002 |": ["control-lr2-s1", "control-lr2-s2", "control-lr2-s3"],
    "| identity start |": ["identity-s1", "identity-s2", "identity-s3"],
    "| drop-net 0.5 |": ["paper-p05-s1", "p05-s2", "p05-s3"],
    "| drop-net 1.0": ["paper-s1", "paper-s2"],
    "| drop-net 0.5, random BERT": ["p05-random-s1"],
}
SETTINGS = {
    "| drop-net 0.5, MiniLM's layer 2": ["p05-l2-s1"],
    "| drop-net 0.5, warm-up 500": ["p05-w500-s3"],
    "| drop-net 0.5, learned mix": ["p05-mix-s3"],
    "| drop-net 0.5, dropout 0.1": ["p05-d1-s3"],
    "| drop-net 0.5, from random": ["scratch-s3"],
}
MORE, TEST = "more, average of five", "test, average of five"


@pytest.mark.parametrize(("rows", "sets"), [(SYSTEMS, [TEST, MORE]), (SETTINGS, [MORE])])
def test_the_results_are_those_of_the_study(rows, sets):
    trainings = json.loads(text_of("docs/evidence/study/settings.json"))["trainings"]
    section = re.search(r"^## 10,000 pairs.*?(?=^## )", text_of("docs/results.md"), re.MULTILINE | re.DOTALL)[0]
    for start, names in rows.items():
        [line] = [line for line in section.splitlines() if line.startswith(start)]
        for found in (trainings[name][scored] for name in names for scored in sets):
            assert f"{found['BLEU']:.1f}" in line
            assert f"{found['chrF']:.1f}" in line


def test_the_row_of_the_bigger_encoder_is_that_of_the_evidence():
    evidence = json.loads(text_of("docs/evidence/study/mpnet.json"))
    seeds = evidence["trainings"]["mpnet8-s1"], evidence["seed 2"]["trainings"]["mpnet-8-s2"]
    cells = ["; ".join(f"{max(seed['curve'], key=lambda validation: validation[2])[0]:,}" for seed in seeds)]
    for names in (("test", "test"), ("test-more", "test-large")):
        scores = (seed["large"][name] for seed, name in zip(seeds, names))
        cells.append("; ".join(f"{score['BLEU']:.1f}, {score['chrF']:.1f}" for score in scores))
    assert f"with MPNet base (seed 1 on a Xeon) | {' | '.join(cells)} |" in text_of("docs/results.md")


def test_the_first_gains_are_those_of_the_evidence():
    gained = {}
    for row in json.loads(text_of("docs/evidence/study/gains.json")):
        gained.setdefault(f"| {row['language']}, {row['pairs']:,} pairs |", []).append(row["BLEU"])
    for start, gains_of_seeds in gained.items():
        line, *_ = (line for line in text_of("README.md").splitlines() if line.startswith(start))
        assert line.endswith(f"| {sum(gains_of_seeds) / len(gains_of_seeds):.1f} |")


def test_the_picture_of_gains_is_that_of_the_evidence():
    assert gains.PICTURE.read_text(encoding="utf-8") == gains.picture()


def test_pictures_are_shown_and_small():
    pictures = list((ROOT / "docs" / "pictures").iterdir())
    assert pictures
    for picture in pictures:
        assert picture.stat().st_size < 150_000, f"{picture.name} is too large; reduce its colours or its size"
        assert any(f"pictures/{picture.name}" in text_of(page) for page in PAGES), f"no page shows {picture.name}"


def test_the_sample_of_the_report_is_of_todays_page():
    """After a change of the template, benchmarks/sample_report.py makes page and picture anew."""
    page = text_of("docs/sample_report.html")
    assert len(page.encode()) < 400_000
    assert page.endswith(sample_report.made_from())
    assert not re.findall(r"/(?:home|root|tmp|work)/", page)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (folder / path).resolve() if path else ROOT / page
        assert file.exists(), f"{page} links to {target}, and there is no {file}"
        if anchor:
            there = anchors(file.relative_to(ROOT).as_posix())
            assert anchor in there, f"{page} links to {target}; the headings there are {sorted(there)}"


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_files_that_are_named_are_there(page):
    for name in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./*{{}},-]*)`", text_of(page)):
        alternatives = re.fullmatch(r"(.*)\{(.*)\}(.*)", name)
        names = [name] if alternatives is None else [
            alternatives[1] + part + alternatives[3] for part in alternatives[2].split(",")
        ]  # fmt: skip
        for path in names:
            assert next(ROOT.glob(path.rstrip("/")), None), f"{page} names {path}, which is not there"


@pytest.mark.parametrize("block", SHELL_BLOCKS, ids=str)
def test_a_block_is_run_or_says_why_not(block):
    assert re.match(r"test$|define$|not run: \w", block.mark), f"{block} has no mark in the line before it"


@pytest.mark.parametrize("block", SHELL_BLOCKS, ids=str)
def test_the_command_lines_are_accepted(block):
    subprocess.run(["bash", "-n", "-c", block.code], check=True)
    for words in commands(typed(block.code)):
        while words and re.match(r"[A-Z]+=", words[0]):  # variables for one command
            words.pop(0)
        if not words:
            continue
        program = words[0]
        if program == "torchrun":
            words = words[words.index("fairseq-train") :]
            program = "fairseq-train"
        if program == "fairseq-preprocess":
            options.get_preprocessing_parser().parse_args(words[1:])
        elif program in PARSERS:
            options.parse_args_and_arch(PARSERS[program](), input_args=words[1:])
        elif program in COMMANDS:
            COMMANDS[program](words[1:])
        elif "/" in program:
            assert (ROOT / program).exists(), f"{block} runs {program}, which is not there"
        else:
            assert not program.startswith("bert-fused-"), f"{block} runs {program}, which setup.py does not install"


@pytest.mark.parametrize("page", MADE)
def test_the_tables_follow_from_the_specifications_and_docstrings(page):
    """python tests/documentation.py writes them."""
    assert with_tables(text_of(page)) == text_of(page)


def test_the_questions_quote_errors_that_there_are():
    """A line that begins with a quotation is about an error of the package or of its set-up."""
    texts = [text_of("scripts/setup.sh")]
    for file in [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]:
        constants = filter(lambda node: isinstance(node, ast.Constant), ast.walk(ast.parse(file.read_text("utf-8"))))
        texts += [node.value for node in constants if isinstance(node.value, str)]
    quotations = re.findall(r"^\*\*`([^`]+)`\*\*", text_of("docs/faq.md"), re.MULTILINE)
    assert len(quotations) >= 8
    assert [quoted for quoted in quotations if not any(quoted in text for text in texts)] == []


@pytest.mark.parametrize("package", [bert_fused_plugin, bert_fused_lab], ids=lambda package: package.__name__)
def test_the_map_of_a_package_has_a_line_for_each_folder(package):
    folders = {path.parent.name for path in (ROOT / package.__name__).glob("*/__init__.py")}
    assert set(re.findall(r"^    (\w+)/ {2,}\S", package.__doc__, re.MULTILINE)) == folders
