"""The settings of a recurrent model that its checkpoints record, because not all of them show in its parameters."""

from typing import Any

from bert_fused_plugin.bert.flags import noted_bert_settings, weights_text
from bert_fused_plugin.models.gru_bahdanau.config import (
    GruConfig,
    gru_attention_flags,
    gru_branch_weights,
    gru_drop_net_rate,
)
from bert_fused_plugin.models.settings_record import Settings, SettingsRecord
from bert_fused_plugin.modules.recurrent_attention import attention_flags


def settings_record(cfg: GruConfig, task: Any) -> SettingsRecord:
    """Return the record of the settings *cfg*, which keep all rules, and of what *task* translates."""
    return SettingsRecord(_computed(cfg), _noted(cfg), task)


def _computed(cfg: GruConfig) -> Settings:
    settings: Settings = {"attention": cfg.attention}
    kinds = attention_flags()
    settings.update({k: value for k, value in gru_attention_flags(cfg).items() if str(cfg.attention) in kinds[k]})
    settings["layer_norm"] = cfg.layer_norm
    # a checkpoint has a shared matrix under each of its names
    settings["share_decoder_input_output_embed"] = cfg.share_decoder_input_output_embed or cfg.share_all_embeddings
    settings["share_all_embeddings"] = cfg.share_all_embeddings
    if cfg.bert_model is not None:
        settings["bert_branch_weights"] = weights_text(gru_branch_weights(cfg))
    return settings


def _noted(cfg: GruConfig) -> Settings:
    settings: Settings = {"dropout": cfg.dropout}
    if cfg.bert_model is not None:
        settings.update(noted_bert_settings(cfg), bert_drop_net=gru_drop_net_rate(cfg))
    return settings
