"""Encoders that read in a way of their own, or not at all, and files of weights that are damaged or replaced."""

import shutil

import pytest
import torch
from helpers import assert_close
from language_models import save_language_model
from safetensors.torch import load_file
from transformers import (
    FNetConfig,
    FNetModel,
    FunnelConfig,
    FunnelModel,
    MT5Config,
    MT5EncoderModel,
    NystromformerConfig,
    NystromformerModel,
    SqueezeBertConfig,
    SqueezeBertModel,
    ViTConfig,
    ViTModel,
    XmodConfig,
    XmodModel,
)

from bert_fused_lab.exporting.export_model import save_bert
from bert_fused_plugin.bert.finetuned_bert import FinetunedBert
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.pretrained_bert import count_positions
from bert_fused_plugin.bert.source import weights_fingerprint
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD
from bert_fused_plugin.errors import BertFusedError

TOKENS = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, BERT_PAD, BERT_PAD]])
SMALL = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "intermediate_size": 10}


@pytest.mark.parametrize("bert_class", [FrozenBert, FinetunedBert])
@pytest.mark.parametrize("layers", ["-1", "mix"])
def test_an_encoder_whose_states_depend_on_padding_reads_each_length_apart(tmp_path, caplog, bert_class, layers):
    config = FNetConfig(**SMALL, max_position_embeddings=20, type_vocab_size=2, initializer_range=0.5)
    FNetModel(config).save_pretrained(tmp_path)
    bert = bert_class.from_pretrained(str(tmp_path), layers)
    assert "padding changes its states, so it reads one length after the other" in caplog.text
    tokens = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, BERT_PAD, BERT_PAD], [2, 9, 4, 6, 3], [3, *[BERT_PAD] * 4]])
    segments = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 1, 0, 0], [0] * 5, [0] * 5])
    states, mask = bert(tokens, segments), tokens.eq(BERT_PAD)
    for i, length in enumerate((~mask).sum(dim=1).tolist()):
        alone = bert.model(
            tokens[i : i + 1, :length], token_type_ids=segments[i : i + 1, :length], output_hidden_states=True
        )
        expected = torch.cat([alone.hidden_states[layer][0] for layer in bert.layers], dim=-1)
        assert_close(states[i, :length], expected, atol=1e-5)
    assert not states[mask].any()


def test_other_encoders_read_a_small_batch_at_once_and_a_large_one_in_groups_of_like_lengths(
    bert_dir, caplog, monkeypatch
):
    bert = FrozenBert.from_pretrained(bert_dir)
    assert not bert.reads_lengths_apart
    assert "padding" not in caplog.text
    tokens = torch.randint(5, 9, (3, 8)).repeat(40, 1)
    tokens[::3, 4:] = BERT_PAD
    tokens[1::3, 6:] = BERT_PAD
    tokens[-1] = BERT_PAD  # not a sentence, but no error either
    widths = []
    stock = bert._compute
    monkeypatch.setattr(bert, "_compute", lambda x, *rest: widths.append(tuple(x.shape)) or stock(x, *rest))
    small, large = bert(tokens[:6]), bert(tokens)
    assert widths == [(6, 8), (81, 6), (39, 8)]
    mask = tokens.ne(BERT_PAD)
    expected = stock(tokens, None)
    assert_close(large[mask], expected[mask], atol=1e-5)
    assert_close(small[mask[:6]], expected[:6][mask[:6]], atol=1e-5)


def test_encoders_that_cannot_read_word_pieces_are_refused(tmp_path):
    size = {name: value for name, value in SMALL.items() if name != "vocab_size"}
    ViTModel(ViTConfig(**size, num_attention_heads=2, image_size=8, patch_size=4)).save_pretrained(tmp_path / "ViT")
    XmodModel(XmodConfig(**SMALL, num_attention_heads=2, languages=["en_XX"])).save_pretrained(tmp_path / "X-MOD")
    for name, reason in (("ViT", ""), ("X-MOD", "Input language unknown")):
        with pytest.raises(BertFusedError, match=rf"^--bert-model '.*{name}' cannot read a batch of two .*{reason}"):
            FrozenBert.from_pretrained(str(tmp_path / name))


def test_an_encoder_may_call_its_pooler(tmp_path):
    groups = dict.fromkeys(("q", "k", "v", "post_attention", "intermediate", "output"), 1)
    config = SqueezeBertConfig(
        **SMALL, embedding_size=8, num_attention_heads=2, **{f"{name}_groups": size for name, size in groups.items()}
    )
    encoder = SqueezeBertModel(config).eval()
    encoder.save_pretrained(tmp_path)
    bert = FrozenBert.from_pretrained(str(tmp_path))
    assert_close(bert(TOKENS[:1]), encoder(TOKENS[:1]).last_hidden_state.detach(), atol=1e-5)


@pytest.mark.parametrize("kind", ["mT5", "mT5, its encoder alone", "mBART", "Marian", "Funnel"])
def test_a_copy_of_the_encoder_has_no_decoder_that_is_not_used(tmp_path, kind):
    """Funnel's decoder is a part of the encoder."""
    old, new = tmp_path / "old", tmp_path / "new"
    save_language_model("mT5" if kind == "Funnel" else kind.split(",")[0], old)
    if kind == "Funnel":
        sizes = {"block_sizes": [1, 1], "d_model": 8, "n_head": 2, "d_head": 4, "d_inner": 10}
        FunnelModel(FunnelConfig(vocab_size=200, **sizes)).save_pretrained(old)
    elif "," in kind:
        MT5EncoderModel(MT5Config.from_pretrained(old)).save_pretrained(old)
    bert = FinetunedBert.from_pretrained(str(old))
    for parameter in bert.parameters():
        parameter.data += 1
    save_bert(bert, new)
    has_decoder = any(key.startswith("decoder.") for key in load_file(new / "model.safetensors"))
    assert has_decoder == (kind == "Funnel")
    assert weights_fingerprint(FrozenBert.from_pretrained(str(new))) == weights_fingerprint(bert)


def test_positions_are_no_more_than_the_configuration_says():
    config = NystromformerConfig(**SMALL, num_attention_heads=2, max_position_embeddings=20)
    assert count_positions(NystromformerModel(config)) == 20


def test_a_file_of_weights_that_is_overwritten_changes_nothing_in_a_process_that_has_read_it(bert_dir, tmp_path):
    shutil.copytree(bert_dir, tmp_path / "bert")
    bert = FrozenBert.from_pretrained(str(tmp_path / "bert"))
    before = bert(TOKENS)
    weights = tmp_path / "bert" / "model.safetensors"
    with weights.open("r+b") as file:
        file.seek(weights.stat().st_size // 4)
        file.write(bytes(weights.stat().st_size // 2))
    assert torch.equal(bert(TOKENS), before)
