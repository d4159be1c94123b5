"""The changes of fairseq_compat to --bf16, which stock fairseq takes for a flag of TPUs and of training."""

import functools
import importlib.util
import logging
import sys
from typing import Any

logger = logging.getLogger(__name__)


def bf16_without_tpu(module: Any) -> None:
    """Let --bf16 and --memory-efficient-bf16 work on CPUs and GPUs, as they do in fairseq-hydra-train."""
    # Not a matter of versions: fairseq-train takes --bf16 for --tpu too, and then needs torch_xla.
    stock = module.parse_args_and_arch

    @functools.wraps(stock)
    def parse_args_and_arch(parser: Any, input_args: Any = None, *rest: Any, **options: Any) -> Any:
        given = sys.argv if input_args is None else input_args
        try:
            parsed = stock(parser, input_args, *rest, **options)
        except ValueError as error:
            if "--tpu" in given or "--fp16 and --tpu" not in str(error):
                raise
            parser.exit(2, "error: --bf16 and --fp16 are two precisions, got both; leave one of them out\n")
        args = parsed[0] if isinstance(parsed, tuple) else parsed
        if getattr(args, "bf16", False) and "--tpu" not in given and not importlib.util.find_spec("torch_xla"):
            args.tpu = False
        return parsed

    module.parse_args_and_arch = parse_args_and_arch


def bf16_when_translating(module: Any) -> None:
    """Let fairseq-generate, fairseq-interactive and fairseq-eval-lm compute in bfloat16 with --bf16."""
    # Not a matter of versions: fairseq looks at --fp16 there, and ignores --bf16.
    model = module.BaseFairseqModel
    stock = model.prepare_for_inference_

    @functools.wraps(stock)
    def prepare_for_inference_(self: Any, cfg: Any) -> Any:
        # These commands have a --path.  The hub interface gives the settings of the training, which have none, and
        # whose --bf16 says nothing of the translation.
        path = getattr(getattr(cfg, "common_eval", None), "path", None)
        if path is not None and getattr(getattr(cfg, "common", None), "bf16", False):
            self.bfloat16()
            logger.info(f"{type(self).__name__} computes in bfloat16 (--bf16)")
        return stock(self, cfg)

    model.prepare_for_inference_ = prepare_for_inference_


def bf16_training_on_cpus(module: Any) -> None:
    """Let updates in bfloat16 on a CPU compute attention by torch's plain kernel."""
    # torch 2.13: the gradient of the flash kernel for CPUs takes 2 to 8 times as long in bfloat16 on sentences of 10 to
    # 40 tokens, which made it a third of an update (docs/performance.md); without a gradient it is the faster one.
    trainer = module.Trainer
    stock = trainer.train_step

    @functools.wraps(stock)
    def train_step(self: Any, *args: Any, **options: Any) -> Any:
        flash = module.torch.backends.cuda  # the switch is that of CPUs, too
        before = flash.flash_sdp_enabled()
        flash.enable_flash_sdp(before and (self.cuda or not self.cfg.common.bf16))
        try:
            return stock(self, *args, **options)
        finally:
            flash.enable_flash_sdp(before)

    trainer.train_step = train_step
