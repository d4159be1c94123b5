"""Beam search on the pretend GPU finds what it finds on the CPU, and waits no more often than fairseq's transformer."""

from functools import cache, partial

import pytest
import torch
from fairseq.search import DiverseBeamSearch, DiverseSiblingsSearch, LexicallyConstrainedBeamSearch
from fairseq.token_generation_constraints import pack_constraints
from helpers import encode
from model_cases import STOCK, TARGETS
from pretend import assert_same_lines, needs_pretend_gpu, pretend_gpu

pytestmark = needs_pretend_gpu
MEMBERS = ["parallel", "gru: BERT", STOCK, "gated"]
MODELS = {
    "parallel", "gated", "stacked", "embedding", "bert_decoder", "BERT in the decoder", "special tokens masked",
    "context", "mix", "fine-tuned", "gru: additive", "gru: none", "gru: deep",
    "gru: BERT", "entmax, sparsemax", "gru: sparsemax, dot", STOCK,
}  # fmt: skip
CONSTRAINED = partial(LexicallyConstrainedBeamSearch, representation="ordered")
SEARCHES = {
    "prefix": {},
    "ordered constraints": {"strategy": CONSTRAINED},
    "unordered constraints": {"strategy": partial(LexicallyConstrainedBeamSearch, representation="unordered")},
    "diverse beams": {"strategy": partial(DiverseBeamSearch, num_groups=2, diversity_strength=0.5), "beam": 4},
    "diverse siblings": {"strategy": partial(DiverseSiblingsSearch, diversity_rate=0.5)},
}


def find(cases, names, how="", cached=False, on_gpu=False, **options):
    """Return the hypotheses of an ensemble, of BERT-fused, recurrent and stock models."""
    models = [cases.model(name).eval() for name in names]
    inputs = {"batch": cases.batch(models[0], cached)}
    if how == "prefix":
        prefixes = [encode(cases.dictionary, line)[:1] for line in TARGETS]
        inputs["prefix_tokens"] = torch.stack(prefixes)
    elif how.endswith("constraints"):
        words = [[encode(cases.dictionary, line)[:-1] for line in lines] for lines in (["dog"], [], ["a", "man"], [])]
        inputs["constraints"] = pack_constraints(words)
    options = {**SEARCHES.get(how, {}), **options}
    if not on_gpu:
        return cases.search(models, **inputs, **options)
    with pretend_gpu() as gpu:
        return cases.search(list(map(gpu.put, models)), **gpu.put(inputs), **options)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_each_model_translates_as_on_the_cpu(cases, name):
    assert_same_lines(find(cases, [name], on_gpu=True), find(cases, [name]))


@pytest.mark.parametrize("how", SEARCHES)
@pytest.mark.parametrize("names", [MEMBERS[:1], MEMBERS[1:2], MEMBERS], ids=["fused", "recurrent", "ensemble"])
def test_each_search_finds_what_it_finds_on_the_cpu(cases, how, names):
    seen, expected = (find(cases, names, how, cached=how == "prefix", on_gpu=on_gpu) for on_gpu in (True, False))
    assert_same_lines(seen, expected)


@cache
def waits_of_a_step(cases, *names):
    """Return the waits of a step of beam search, except those in fairseq's generator itself, by their lines."""
    models = [cases.model(name).eval() for name in names]
    counts = []
    with pretend_gpu() as gpu:
        batch = gpu.put(cases.batch(models[0]))
        models = list(map(gpu.put, models))
        for steps in (2, 5):
            with gpu.recording():
                cases.search(models, batch, max_len=steps, min_len=steps)
            counts.append(dict(gpu.waits))
    few, many = counts
    return {
        line: (count - few.get(line, 0)) / 3
        for line, count in many.items()
        if count > few.get(line, 0) and "fairseq/sequence_generator" not in line and "fairseq/search" not in line
    }


@pytest.mark.parametrize("names", [(name,) for name in sorted(MODELS)] + [("parallel", "gru: BERT", "gated")])
def test_a_step_waits_no_more_often_than_with_fairseqs_transformer(cases, names):
    allowed, seen = waits_of_a_step(cases, STOCK), waits_of_a_step(cases, *names)
    assert sum(allowed.values()) == 1
    assert sum(seen.values()) <= 1, seen
