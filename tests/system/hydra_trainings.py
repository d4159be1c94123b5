"""Trains, resumes and translates with each model of examples/hydra, in one process: usage DATA BERT."""

import sys
from pathlib import Path

from fairseq_cli import generate, hydra_train

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "examples" / "hydra"
SIZES = {
    "bert": "encoder_embed_dim=16 encoder_ffn_embed_dim=24 encoder_attention_heads=2 decoder_embed_dim=16 "
    "decoder_ffn_embed_dim=24 decoder_attention_heads=2 decoder_layers=2",
    "gru": "encoder_embed_dim=16 encoder_hidden_size=12 decoder_embed_dim=16 decoder_hidden_size=20 "
    "decoder_out_embed_dim=16",
}


def run(module, *arguments: object) -> None:
    sys.argv = [module.__name__, *map(str, arguments)]
    module.cli_main()


def main(data: str, bert: str) -> None:
    for model in sorted(path.stem for path in (CONFIGS / "model").glob("*.yaml")):
        print(f"MODEL {model}", flush=True)
        settings = [f"+model.{size}" for size in SIZES[model.split("_")[0]].split()]
        if model.startswith("bert"):
            settings.append(f"model.bert_model={bert}")
        for updates in (2, 4):
            run(
                hydra_train, "--config-dir", CONFIGS, "--config-name", "translation", f"model={model}", *settings,
                f"task.data={data}", f"checkpoint.save_dir={model}", f"optimization.max_update={updates}",
                "dataset.max_tokens=120", "dataset.num_workers=0", "common.cpu=true", "dataset.disable_validation=true",
                f"common.user_dir={ROOT / 'bert_fused_plugin'}",
            )  # fmt: skip
        run(
            generate, data, "--path", f"{model}/checkpoint_last.pt", "--user-dir", ROOT / "bert_fused_plugin",
            "--task", "bert_fused_translation", "--beam", "2", "--max-len-b", "3", "--num-workers", "0", "--cpu",
        )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
