"""Every option of fairseq-generate does with our models what it is for; fairseq-interactive's own are here too."""

import inspect
import math
from pathlib import Path

import pytest
from fairseq.search import DiverseBeamSearch
from in_process import Model, train
from workspace import GRU_SIZES, TINY

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel


@pytest.fixture(scope="module")
def fused(workspace, tmp_path_factory):
    path = tmp_path_factory.mktemp("fused")
    train(workspace.data, path, "--arch", "bert_fused", *TINY, "--bert-model", workspace.bert_dir, "--dropout", "0.2")
    return Model(workspace.data, path / "checkpoint_last.pt")


@pytest.fixture(scope="module")
def gru(workspace, tmp_path_factory):
    path = tmp_path_factory.mktemp("gru")
    train(workspace.data, path, "--arch", "gru_bahdanau", *GRU_SIZES, "--dropout", "0.2")
    return Model(workspace.data, path / "checkpoint_last.pt")


@pytest.fixture(params=["fused", "gru"])
def model(request):
    return request.getfixturevalue(request.param)


@pytest.mark.skipif(
    "diversity_discount" in inspect.signature(DiverseBeamSearch).parameters,
    reason="fairseq's main takes the number of a sentence for its place in the batch, and raises an IndexError",
)
def test_diverse_beam_groups(model):
    groups = ["--nbest", "3", "--diverse-beam-groups", "3", "--diverse-beam-strength"]
    for number, lines in model.generate(*groups, "0").all("H").items():
        assert [text.split() for _, text in lines] == [model.greedy[number]] * 3  # three groups of a beam of one each
    for lines in model.generate(*groups, "50").all("H").values():
        assert len({text.split()[0] for _, text in lines}) == 3


def test_prefix_size(model):
    out = model.generate("--prefix-size", "2")
    reference = out.tokens("T")
    assert {n: words[:2] for n, words in out.tokens().items()} == {n: words[:2] for n, words in reference.items()}
    assert out.tokens() != model.default.tokens()


def test_processes_share_a_test_set(model):
    parts = [model.generate("--distributed-world-size", "2", "--distributed-rank", rank).tokens() for rank in "01"]
    assert not parts[0].keys() & parts[1].keys()
    assert {**parts[0], **parts[1]} == model.default.tokens()


def test_the_hub_interface_scores_references_alike(workspace, model):
    load = BertFusedModel.from_pretrained  # of any class
    hub = load(str(Path(model.checkpoint).parent), "checkpoint_last.pt", workspace.data)
    sources, references = (
        (workspace.path / f"test.{lang}").read_text(encoding="utf-8").splitlines() for lang in ("en", "de")
    )
    expected = [score * math.log(2) for score in model.generate("--score-reference").scores().values()]
    assert hub.score(sources, references) == pytest.approx(expected, abs=1e-4)
    assert hub.score(sources[3], references[3]) == pytest.approx(expected[3], abs=1e-4)


@pytest.mark.parametrize("order", ["ordered", "unordered"])
def test_constraints(model, order):
    lines = ["the dog\tred\tbig woman", "the dog\tbig woman\tred", "a man", "old\thouse"]
    out = model.interactive("\n".join(lines) + "\n", "--constraints", order, "--buffer-size", "3", "--batch-size", "3")
    seen = {number: f" {' '.join(words)} " for number, words in out.tokens().items()}
    for number, line in enumerate(lines):
        phrases = line.split("\t")[1:]
        assert [fields[0] for fields in out.all("C").get(number, [])] == phrases
        places = [seen[number].find(f" {phrase} ") for phrase in phrases]
        assert -1 not in places
        assert order == "unordered" or places == sorted(places)
    assert out.tokens()[2] == model.interactive("a man\n").tokens()[0]


def test_alignment(model):
    hard, soft = (model.generate("--print-alignment", *kind) for kind in ([], ["soft"]))
    rows = {n: [[float(p) for p in row.split(",")] for row in line.split()] for n, line in soft.best("A").items()}
    for number, line in hard.best("A").items():
        words, source = hard.tokens()[number], hard.tokens("S")[number]
        assert len(rows[number]) == len(words) + 1  # eos
        assert all(len(row) == len(source) + 1 and sum(row) == pytest.approx(1, abs=1e-4) for row in rows[number])
        assert [target for _, target in pairs(line)] == list(range(len(words)))
        for place, target in pairs(line):
            row = rows[number][target][:-1]  # hard alignments leave out the source's eos
            assert row[place] == pytest.approx(max(row), abs=1e-5)
    assert hard.tokens() == soft.tokens() == model.default.tokens()
    typed = model.interactive("\n".join(" ".join(words) for words in hard.tokens("S").values()), "--print-alignment")
    assert typed.best("A") == hard.best("A")


def pairs(line: str):
    """The (source, target) pairs of an A line."""
    return [tuple(map(int, pair.split("-"))) for pair in line.split()]


def test_dropout_is_retained(model):
    dropout = ["--retain-dropout", "--beam", "1", "--seed"]
    first, again, other = (model.generate(*dropout, seed).all("P") for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_subsets(fused):
    valid = fused.generate("--gen-subset", "valid", "--max-len-b", "3")
    lines = (Path(fused.data).parent / "valid.en").read_text(encoding="utf-8").splitlines()
    assert valid.best("S") == dict(enumerate(lines))


def test_overrides_reach_the_model(fused):
    cut = fused.generate("--model-overrides", "{'bert_max_tokens': 4}").scores()
    differ = {number for number in cut if cut[number] != pytest.approx(fused.default.scores()[number], abs=1e-6)}
    long = {number for number, words in fused.default.tokens("S").items() if len(words) > 2}
    assert differ == long  # two word pieces fit between [CLS] and [SEP]


def test_a_flag_that_does_nothing_is_named_and_nothing_is_written(fused, monkeypatch, tmp_path, caplog):
    monkeypatch.chdir(tmp_path)
    fused.interactive("the dog\n", "--bert-cache", "new")
    assert "--bert-cache is for data sets, and typed lines are read without it" in caplog.text
    with pytest.raises(BertFusedError, match="--bert-cache-dtype is for --bert-cache, got fp32; add --bert-cache, or"):
        fused.generate("--bert-cache-dtype", "fp32")
    assert list(tmp_path.iterdir()) == []


def test_sources_that_are_too_long_are_cut_and_not_skipped(fused):
    limit = ["--max-source-positions", "5", "--skip-invalid-size-inputs-valid-test"]
    assert fused.generate(*limit).all("H").keys() == set(range(30))


def test_unknown_words_are_replaced(model, workspace, tmp_path):
    """By the word of the source that the alignment names, or its translation in the dictionary."""
    for lang in ("en", "de"):
        text = (workspace.path / f"test.{lang}").read_text(encoding="utf-8")
        (tmp_path / f"test.en-de.{lang}").write_text(text.replace("woman", "Frau"), encoding="utf-8")
        (tmp_path / f"dict.{lang}.txt").write_bytes((Path(model.data) / f"dict.{lang}.txt").read_bytes())
    (tmp_path / "lexicon").write_text("dog Hund\n", encoding="utf-8")
    raw = ["--dataset-impl", "raw", "--unkpen", "-100", "--print-alignment", "--max-len-b", "3", "--beam", "1"]
    unknown = model.generate(*raw, data=tmp_path)
    replaced = model.generate(*raw, "--replace-unk", tmp_path / "lexicon", data=tmp_path)
    assert unknown.best("A") == replaced.best("A")
    assert "Frau" in " ".join(replaced.best("S").values())
    for number, line in replaced.best("A").items():
        source = replaced.tokens("S")[number]
        words = ["Hund" if source[place] == "dog" else source[place] for place, _ in pairs(line)]
        assert unknown.tokens()[number] == ["<unk>"] * 3
        assert replaced.tokens()[number] == words
    raw.remove("--print-alignment")
    with pytest.raises(ValueError, match="--replace-unk needs alignments; add --print-alignment"):
        model.generate(*raw, "--replace-unk", tmp_path / "lexicon", data=tmp_path)


# --- half precision, as far as CPUs have it


HOW = "--encoder-layers 1 --decoder-layers 1 --lr 0.001 --clip-norm 1.0 --max-tokens 60 --max-update 10".split()


@pytest.mark.parametrize(("arch", "others"), [("bert_fused_tiny", False), ("gru_bahdanau_tiny", True)])
def test_translation_in_bf16_is_near_that_in_single(workspace, plain, tmp_path, caplog, arch, others):
    made = ["--bert-model", workspace.bert_dir, "--bert-cache", workspace.path / "cache"]
    train(workspace.data, tmp_path, "--arch", arch, *HOW, *made)
    more = f":{plain / 'checkpoint_best.pt'}" if others else ""  # an ensemble with fairseq's own
    model = Model(workspace.data, f"{tmp_path / 'checkpoint_last.pt'}{more}")
    single = model.default.scores()
    assert "computes in bfloat16" not in caplog.text
    cached = model.generate("--bf16", "--bert-cache", workspace.path / "cache").scores()
    assert "Model computes in bfloat16 (--bf16)" in caplog.text
    assert len(cached) == 30
    for half in (model.generate("--bf16").scores(), cached):
        assert half != single
        assert sum(math.isclose(half[n], single[n], abs_tol=0.05, rel_tol=0.02) for n in single) >= 28  # of 30
