"""The settings of a BERT-fused model that its checkpoints record, because no parameter shows them."""

from typing import Any

from bert_fused_plugin.bert.flags import noted_bert_settings, weights_text
from bert_fused_plugin.models.bert_fused.config import (
    BertFusedConfig,
    branch_weights,
    drop_net_rate,
    fusion_of,
    replaces_embeddings,
)
from bert_fused_plugin.models.settings_record import Settings, SettingsRecord

# fairseq's flags that change what is computed, but not the shape of any parameter
OF_SIDES = ("attention_heads", "normalize_before", "learned_pos")
OF_BOTH = ("activation_fn", "no_scale_embedding", "no_token_positional_embeddings", "no_decoder_final_norm")
MAPS = ("attention_map", "self_attention_map")


def settings_record(cfg: BertFusedConfig, task: Any) -> SettingsRecord:
    """Return the record of the settings *cfg*, which keep all rules, and of what *task* translates."""
    return SettingsRecord({**_of_fusion(cfg), **_of_transformer(cfg)}, _noted(cfg), task)


def _of_fusion(cfg: BertFusedConfig) -> Settings:
    fusion = fusion_of(cfg)
    settings: Settings = {"bert_fusion": cfg.bert_fusion}
    if fusion.weighted:
        settings["bert_branch_weights"] = weights_text(branch_weights(cfg))
    if fusion.is_sublayer:
        settings["bert_stack_order"] = cfg.bert_stack_order
    if not fusion.replaces_embeddings:
        settings["bert_attend"] = cfg.bert_attend
        # a pruned model has fewer layers, and so other gates than the model that was trained
        if not cfg.encoder.layers_to_keep and not cfg.decoder.layers_to_keep:
            gates = [gate.strip() for gate in (cfg.bert_gates or "").split(",")]
            settings["bert_gates"] = ",".join(gates) if "0" in gates else None
    return settings


def _of_transformer(cfg: BertFusedConfig) -> Settings:
    """Return fairseq's own settings, and the maps of attention; a side without layers has none."""
    settings: Settings = {name: vars(cfg)[name] for name in (*OF_BOTH, *MAPS)}
    for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
        if part.layers:
            settings.update({f"{side}_{name}": vars(part)[name] for name in OF_SIDES})
    # a checkpoint has a shared matrix under each of its names
    settings["share_decoder_input_output_embed"] = cfg.share_decoder_input_output_embed or cfg.share_all_embeddings
    if not replaces_embeddings(cfg):
        settings["share_all_embeddings"] = cfg.share_all_embeddings
    return settings


def _noted(cfg: BertFusedConfig) -> Settings:
    settings = noted_bert_settings(cfg)
    if fusion_of(cfg).has_branches:
        settings.update(bert_drop_net=drop_net_rate(cfg), bert_drop_net_per=cfg.bert_drop_net_per)
    return settings
