"""--bf16 of fairseq-generate: all models search in bfloat16, and find what they find in single precision."""

import copy

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.sequence_generator import SequenceGenerator
from helpers import encode, make_gru, pad

LINES = ["the old man sees a small dog .", "a dog"]
KINDS = {
    "parallel": {},
    "gated, mix": {"bert_fusion": "gated", "bert_layer": "mix"},
    "stacked": {"bert_fusion": "stacked"},
    "embedding": {"bert_fusion": "embedding"},
    "bert_decoder": {"encoder_layers": 0},
    "finetune": {"bert_finetune": True},
    "gru": {},
    "gru, no BERT": {"attention": "dot", "layer_norm": True},
    "fairseq's": {},
}


@pytest.fixture(params=KINDS)
def model(request, build, stock, dictionary, bert_dir):
    torch.manual_seed(3)
    kind, flags = request.param, KINDS[request.param]
    if kind == "fairseq's":
        model = stock()
    elif kind.startswith("gru"):
        model = make_gru(dictionary, **({} if "no BERT" in kind else {"bert_model": bert_dir}), **flags)
    else:
        model = build(**flags)
    for name, parameter in model.named_parameters():
        if not name.startswith("encoder.bert."):
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def prepared(model, *flags):
    """A copy of *model*, prepared as fairseq-generate does."""
    parser = options.get_generation_parser()
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, ["data", "--path", "x.pt", *flags]))
    model = copy.deepcopy(model)
    model.prepare_for_inference_(cfg)
    return model


def translate(models, dictionary):
    """Return the hypotheses of `LINES`, best first."""
    source = pad([encode(dictionary, line) for line in LINES], dictionary.pad(), left=True)
    net_input = {"src_tokens": source, "src_lengths": source.ne(dictionary.pad()).sum(1)}
    generator = SequenceGenerator(models, dictionary, beam_size=3, max_len_b=5)
    return generator.generate(models, {"net_input": net_input})


def scores_of(model, dictionary, line, tokens):
    """Return the log-probability of each of *tokens* as a translation of *line*, with one full forward pass."""
    source = encode(dictionary, line).unsqueeze(0)
    previous = torch.cat([tokens.new_tensor([dictionary.eos()]), tokens[:-1]]).unsqueeze(0)
    with torch.no_grad():
        logits = model(source, torch.tensor([source.size(1)]), previous)
    return model.get_normalized_probs(logits, log_probs=True)[0].gather(1, tokens.unsqueeze(1)).squeeze(1)


def test_the_search_is_that_of_single_precision_but_for_rounding(model, dictionary):
    single, half = prepared(model), prepared(model, "--bf16")
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in single.parameters()} == {p.dtype for p in model.parameters()} == {torch.float32}
    for line, expected, found in zip(LINES, translate([single], dictionary), translate([half], dictionary)):
        assert len(found) == len(expected)
        assert found[0]["score"].dtype == torch.float32
        assert found[0]["score"].item() == pytest.approx(expected[0]["score"].item(), rel=0.05, abs=0.05)
        for hypothesis in found:
            positional = hypothesis["positional_scores"]
            assert torch.isfinite(positional).all()
            for scorer in (half, single):  # incremental as in one pass, and as in single precision
                scored = scores_of(scorer, dictionary, line, hypothesis["tokens"])
                torch.testing.assert_close(positional, scored, atol=0.25, rtol=0.05)


def test_without_the_flag_nothing_changes_but_the_order_of_sums(model, dictionary):
    for before, after in zip(translate([model], dictionary), translate([prepared(model)], dictionary)):
        assert [h["tokens"].tolist() for h in before] == [h["tokens"].tolist() for h in after]
        for x, y in zip(before, after):
            torch.testing.assert_close(x["positional_scores"], y["positional_scores"], atol=1e-5, rtol=1e-5)


def test_members_of_an_ensemble_may_be_of_any_kind(build, stock, dictionary, bert_dir):
    members = [build(), stock(), make_gru(dictionary, bert_model=bert_dir)]
    found = translate([prepared(member, "--bf16") for member in members], dictionary)
    assert all(torch.isfinite(hypotheses[0]["positional_scores"]).all() for hypotheses in found)


def test_the_log_says_that_a_model_computes_in_bfloat16(build, caplog):
    caplog.set_level("INFO")
    prepared(build())
    assert "bfloat16" not in caplog.text
    prepared(build(), "--bf16")
    assert "BertFusedModel computes in bfloat16 (--bf16)" in caplog.text
