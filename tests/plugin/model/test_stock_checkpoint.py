"""Checkpoints of fairseq's transformer, old and new: names of parameters, and where flags and languages are saved."""

from argparse import Namespace

import pytest
import torch
from helpers import PRE_NORM
from omegaconf import OmegaConf
from warm_start_helpers import LARGER, REORDERED, assert_same_logits, logits


def as_old(state, version):
    """Return *state* as fairseq 0.6 named it: joint projections, numbered norms, sinusoids, no output projection."""
    result = {}
    norms = {"encoder": ["self_attn", "final"], "decoder": ["self_attn", "encoder_attn", "final"]}
    for name, value in state.items():
        parts = name.split(".")
        if "q_proj" in parts or "in_proj" in parts[-1] or parts[-1].startswith(("out_proj_", "fc1_", "fc2_")):
            if "q_proj" in parts:
                kind, prefix = parts[-1], ".".join(parts[:4])
                joint = torch.cat([state[f"{prefix}.{p}_proj.{kind}"] for p in "qkv"])
                result[f"{prefix}.in_proj_{kind}"] = joint
        elif "layers" in parts and parts[3].endswith("layer_norm"):
            number = norms[parts[0]].index(parts[3][: -len("_layer_norm")])
            result[f"{parts[0]}.layers.{parts[2]}.layer_norms.{number}.{parts[-1]}"] = value
        elif name == "decoder.output_projection.weight":
            if not torch.equal(value, state["decoder.embed_tokens.weight"]):
                result["decoder.embed_out"] = value
        elif not {"k_proj", "v_proj", "_float_tensor"} & set(parts):
            result[name] = value
    for side in ("encoder", "decoder"):
        result[f"{side}.embed_positions.weights"] = torch.randn(40, 8)
        result.pop(f"{side}.version")
        if version is not None:
            result[f"{side}.version"] = torch.tensor([float(version)])
    assert not [name for name in result if "q_proj" in name or "attn_layer_norm" in name or "output_proj" in name]
    return result


@pytest.mark.parametrize("dictionaries", [(None, None), (REORDERED, LARGER)], ids=["same", "remapped"])
@pytest.mark.parametrize(
    ("tied", "share"), [(False, False), (True, True), (True, False)], ids=["embed_out", "tied", "no more tied"]
)
@pytest.mark.parametrize("version", [None, 1, 2])
def test_old_checkpoints_are_understood(stock, save, start, dictionary, version, tied, share, dictionaries):
    baseline = stock(**PRE_NORM, share_decoder_input_output_embed=tied)
    options = {**PRE_NORM, "share_decoder_input_output_embed": share}
    if version != 2:  # in which there were no final norms
        baseline.encoder.layer_norm = baseline.decoder.layer_norm = None
    old = as_old(baseline.state_dict(), version)
    model = start(save(baseline, model=old), *dictionaries, bert_identity_start=True, **options)
    assert_same_logits(model, baseline, dictionary, *dictionaries)

    # a checkpoint of the new model says in its turn that there are no final norms
    source = dictionaries[0] or dictionary
    target = dictionaries[1] or source
    again = start(None, source, target, bert_identity_start=True, **options)
    again.load_state_dict(model.state_dict(), strict=True)
    torch.testing.assert_close(logits(again.eval().double(), source, target), logits(model, source, target))


def test_flags_are_found_wherever_fairseq_has_saved_them(stock, save, start, dictionary, tmp_path):
    """One dictionary for each side tells whether the checkpoint's languages were read."""
    baseline = stock(target=REORDERED)
    flags = dict(vars(baseline.flags))
    languages = {"source_lang": "en", "target_lang": "de", "data": [str(tmp_path / "data"), "other"]}
    (tmp_path / "data").mkdir()
    dictionary.save(str(tmp_path / "data" / "dict.en.txt"))
    REORDERED.save(str(tmp_path / "data" / "dict.de.txt"))
    data = ":".join([*languages.pop("data")])
    cfg = {"model": {"_name": "transformer", **flags}, "task": {"data": data, **languages}}
    for saved in (
        {"args": Namespace(arch="transformer", data=data.split(":"), **languages, **flags), "cfg": None},
        {"cfg": cfg},
        {"cfg": OmegaConf.create(cfg)},
    ):
        path = save(baseline, beside=False, **saved)
        model = start(path, LARGER, dictionary, bert_identity_start=True)
        a, b = (m.decoder.embed_tokens.weight for m in (model, baseline))
        assert torch.equal(a[dictionary.index("dog")], b[REORDERED.index("dog")])
        a, b = (m.encoder.embed_tokens.weight for m in (model, baseline))
        assert torch.equal(a[LARGER.index("dog")], b[dictionary.index("dog")])


def test_the_languages_are_those_of_the_checkpoint_or_if_it_says_nothing_the_same(
    stock, save, start, dictionary, tmp_path
):
    """fairseq keeps languages that it has found out by itself with the task, and None with the model."""
    baseline = stock(target=REORDERED)
    flags = Namespace(source_lang=None, target_lang=None, **vars(baseline.flags))
    cfg = {"task": {"source_lang": "fr", "target_lang": "it"}, "model": flags}
    dictionary.save(str(tmp_path / "dict.fr.txt"))
    REORDERED.save(str(tmp_path / "dict.it.txt"))
    index = dictionary.index("dog"), REORDERED.index("dog")
    for target, said in ((dictionary, cfg), (REORDERED, None)):
        model = start(save(baseline, target=target, cfg=said), LARGER, dictionary)
        assert torch.equal(model.decoder.embed_tokens.weight[index[0]], baseline.decoder.embed_tokens.weight[index[1]])
