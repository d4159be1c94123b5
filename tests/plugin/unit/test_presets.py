"""The model section of a YAML file means what the flags of the command line mean."""

from dataclasses import asdict

import pytest
from documentation import ROOT
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf, open_dict

import bert_fused_plugin  # noqa: F401  registers the architectures
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.fairseq_settings import as_namespace
from bert_fused_plugin.modules.fusion import FUSION_KINDS

MODELS = ROOT / "examples" / "hydra" / "model"
ARCHITECTURES = [arch for arch, model in ARCH_MODEL_REGISTRY.items() if "bert_fused_plugin" in model.__module__]


def from_command_line(arch, *flags):
    arguments = ["data", "--task", "bert_fused_translation", "--arch", arch, "--bert-model", "bert", *flags]
    arguments += ["--max-source-positions", "77", "--max-target-positions", "88"]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    return ARCH_MODEL_REGISTRY[arch].config_class.from_namespace(convert_namespace_to_omegaconf(args).model)


def section(arch, **settings):
    task = {"max_source_positions": 77, "max_target_positions": 88}
    file = OmegaConf.to_container(OmegaConf.load(MODELS / f"{arch}.yaml"))
    model = {**file["model"], "bert_model": "bert", **settings}
    root = OmegaConf.create({"task": task, "model": model})
    with open_dict(root.model):
        ARCH_CONFIG_REGISTRY[arch](root.model)
    return root.model


def from_yaml(arch, **settings):
    return ARCH_MODEL_REGISTRY[arch].config_class.from_namespace(as_namespace(section(arch, **settings)))


def test_each_architecture_has_its_file():
    assert sorted(path.stem for path in MODELS.glob("*.yaml")) == sorted(ARCHITECTURES)
    assert {OmegaConf.load(path).model._name for path in MODELS.glob("*.yaml")} == set(ARCHITECTURES)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_preset_is_the_same_from_both(arch):
    assert asdict(from_yaml(arch)) == asdict(from_command_line(arch))


def test_settings_are_read_as_flags_and_win_over_the_preset():
    settings = {"dropout": 0, "bert_layer": -1, "encoder_layers": 2, "adaptive_softmax_cutoff": [10, 20]}
    settings.update(bert_attend="encoder", encoder_normalize_before=True)
    flags = "--dropout 0 --bert-layer -1 --encoder-layers 2 --adaptive-softmax-cutoff 10,20 --bert-attend encoder"
    expected = from_command_line("bert_fused_tiny", *flags.split(), "--encoder-normalize-before")
    seen = from_yaml("bert_fused_tiny", **settings)
    assert asdict(seen) == asdict(expected)
    assert (seen.dropout, seen.bert_layer, seen.adaptive_softmax_cutoff) == (0.0, "-1", [10, 20])
    assert from_yaml("gru_dot", bert_model="???").bert_model is None
    assert not from_yaml("bert_fused_tiny", share_all_embeddings=False).share_all_embeddings


@pytest.mark.parametrize("arch", ["bert_fused_tiny", "gru_bahdanau_tiny"])
def test_what_a_checkpoint_keeps_is_complete_and_stays_as_it_is(arch):
    saved = OmegaConf.to_container(section(arch, dropout=0.4), resolve=True)
    assert saved["max_source_positions"] == 77
    assert saved["bert_unchecked"] is False  # so that --model-overrides finds it
    saved["of_another_version"] = True
    alone = OmegaConf.create({"model": saved}).model
    with open_dict(alone):
        ARCH_CONFIG_REGISTRY[arch](alone)
    assert OmegaConf.to_container(alone, resolve=True) == saved


def test_wrong_settings_are_named_together():
    wrong = {"dropout": "much", "bert_fusion": "fused", "bert_finetune": "yes", "encoder_layers": None}
    with pytest.raises(BertFusedError) as error:
        section("bert_fused_tiny", **wrong, bert_drop_nte=0.5, zzz=1)
    assert error.value.errors == (
        "model.dropout must be what --dropout takes on the command line, got 'much'",
        f"model.bert_fusion must be one of {', '.join(FUSION_KINDS)}, got 'fused'",
        "model.bert_finetune must be true or false, got 'yes'",
        "model.encoder_layers must be left out for the architecture's own value, got None",
        "model.bert_drop_nte, got 0.5, is no setting of this model; did you mean bert_drop_net?",
        "model.zzz, got 1, is no setting of this model; leave it out",
    )
