"""examples/own_data/settings.py: the settings of training by the amount of text, the size and the device."""

import subprocess

import lstm_flags
import pytest
import settings
from fairseq import options
from fairseq.data import Dictionary
from fairseq.models.lstm import LSTMModel

from bert_fused_plugin.models.gru_bahdanau.config import GruConfig, gru_config_errors


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_settings_follow_the_amount_of_text(device):
    pairs = [3_000, 30_000, 300_000, 3_000_000, 100_000_000]
    chosen = [settings.choose(n, 20 * n, device) for n in pairs]
    assert [s["size"] for s in chosen] == (
        ["tiny"] * 5 if device == "cpu" else ["tiny", "iwslt", "iwslt", "base", "base"]
    )
    assert all(0 < s["warmup"] < s["updates"] and 0 < s["more_warmup"] < s["more"] <= s["updates"] for s in chosen)
    dropouts = [s["dropout"] for s in chosen]
    assert dropouts == sorted(dropouts, reverse=True)
    given = [settings.choose(n, 20 * n, device, "iwslt") for n in pairs]
    assert {tuple(s[name] for name in ("size", "lr", "more_lr", "gru_lr")) for s in given} == {
        ("iwslt", 0.0005, 0.0005, 0.001)
    }


def test_settings_are_assignments_of_bash():
    shell = settings.as_shell(settings.choose(3_000, 60_000, "cpu"))
    script = f'{shell}\necho "$lr ${{#transformer[@]}} $fused_arch"'
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0.002 18 bert_fused_tiny"


@pytest.mark.parametrize("size", settings.SIZES)
def test_the_recurrent_models_of_each_size_share_their_embeddings(size):
    chosen = settings.choose(3_000, 60_000, "cpu", size)
    shared = [*chosen["gru_sizes"].strip("()").split(), "--share-all-embeddings"]

    def parsed(*flags):
        return options.parse_args_and_arch(options.get_training_parser(), ["data", *flags, *shared])

    args = parsed("--arch", chosen["gru_arch"])
    ours = GruConfig.from_namespace(args)
    assert gru_config_errors(ours, Dictionary(), Dictionary()) == []
    lstm = parsed(*lstm_flags.main(chosen["gru_arch"]).split())
    task = type("Task", (), {"source_dictionary": Dictionary(), "target_dictionary": Dictionary()})
    model = LSTMModel.build_model(lstm, task)
    assert model.decoder.hidden_size == ours.decoder_hidden_size
    assert model.encoder.embed_tokens is model.decoder.embed_tokens
