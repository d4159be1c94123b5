"""What all models of this package do alike: flags, the hub interface, the scores of the search, and checks."""

from argparse import ArgumentParser, Namespace
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import FairseqDecoder, FairseqEncoderDecoderModel
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.multilingual_translation import MultilingualTranslationTask
from torch import Tensor

from bert_fused_plugin.bert.from_flags import task_settings
from bert_fused_plugin.bert.record import incompatibilities
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all
from bert_fused_plugin.flags import type_errors
from bert_fused_plugin.models.hub import TranslationHub, load_hub
from bert_fused_plugin.models.parameter_checks import explained, without_records
from bert_fused_plugin.models.presets import as_namespace, warn_of_lone_processes
from bert_fused_plugin.models.recorded_flags import FlagRecord, flag_incompatibilities
from bert_fused_plugin.modules.weight_layout import lay_out_weights


class TranslationModel(FairseqEncoderDecoderModel):
    """A model that says in its checkpoints what it was trained with, and that checks it when it loads one."""

    settings_record: FlagRecord

    config_class: Any  # its fields are the flags

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Declare the flags.  Their defaults stay in the config, so that presets can set other values."""
        gen_parser_from_dataclass(parser, cls.config_class(), delete_default=True, with_prefix="")

    @classmethod
    def from_pretrained(cls, *args: Any, **options: Any) -> TranslationHub:
        """Load a finished model for raw text; the arguments are those of `load_hub`."""
        return load_hub(cls, *args, **options)

    @classmethod
    def read_config(cls, args: Namespace, task: Any) -> Any:
        """Return the config of the flags *args*.

        Raises:
            BertFusedError: the model cannot be trained by *task*, or some flags are not of their type.
        """
        check_task(task)
        warn_of_lone_processes()
        cfg = cls.config_class.from_namespace(as_namespace(args))
        raise_all(type_errors(cfg))
        return cfg

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Prepare the model for translation, as fairseq's commands and its hub interface ask for it."""
        super().prepare_for_inference_(cfg)
        lay_out_weights(self)

    def load_state_dict(
        self, state_dict: Dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """Load a checkpoint after a check that its dictionaries, its BERT and its settings are those of the model.

        Without *strict* nothing is checked: so fairseq's EMA loads what it has computed, after each update.

        Args:
            state_dict: the parameters of the checkpoint.
            strict: whether to check them.
            model_cfg: the flags by which fairseq would prune layers; the model goes by its own.
            args: these flags in the form of older versions of fairseq.

        Raises:
            BertFusedError: a checkpoint of other dictionaries, of another BERT, of other settings or sizes.
        """
        if not strict:
            return super().load_state_dict(without_records(state_dict), strict)
        raise_all(incompatibilities(self, state_dict) + flag_incompatibilities(self, state_dict))
        with explained(self, state_dict):
            return super().load_state_dict(state_dict, strict)


class SearchScores(FairseqDecoder):
    """A decoder that writes the log-probabilities of a step of the search over its scores, on a CPU.

    They are as large as the output matrix' product with all beams, so memory for them costs more than computing them.
    fairseq's search does not read the scores again.
    """

    def get_normalized_probs(
        self, net_output: Tuple[Tensor, Any], log_probs: bool, sample: Optional[Dict[str, Tensor]] = None
    ) -> Tensor:
        """Return the probabilities, or their logarithms, (B, T, V); the arguments are fairseq's.

        Args:
            net_output: what the decoder has returned.
            log_probs: whether to return logarithms.  Those of one position in single precision on a CPU, without a
                gradient, take the place of the scores in *net_output*.
            sample: the batch, which an adaptive softmax reads.
        """
        scores = net_output[0]
        is_step = scores.size(1) == 1 and not scores.requires_grad and "adaptive_softmax" not in self._modules
        writable = torch.is_inference_mode_enabled() or not scores.is_inference()
        if log_probs and is_step and writable and scores.dtype == torch.float32 and scores.device.type == "cpu":
            return torch.log_softmax(scores, -1, out=scores)
        probabilities: Tensor = super().get_normalized_probs(net_output, log_probs, sample)
        return probabilities


def check_task(task: Any) -> None:
    """Check that a model of this package can be trained by *task*.

    Raises:
        BertFusedError: the task takes only models that have an encoder and a decoder for each pair of languages.
    """
    if isinstance(task, MultilingualTranslationTask):
        name = next(name for name, kind in TASK_REGISTRY.items() if kind is type(task))
        raise BertFusedError(
            f"--task {name} takes only fairseq's models with an encoder and a decoder for each pair of languages, and "
            "the architectures of bert_fused_plugin have one of each; for several pairs in one model give --task "
            "translation_multi_simple_epoch, or put a tag such as <2de> in front of each source line and give --task "
            "bert_fused_translation --bert-strip-tags '<2*>'"
        )


def task_flag_errors(task: Any, reasons: Mapping[str, str]) -> List[str]:
    """Return a sentence for each switch of *task* that is on and that a model cannot be trained with.

    Args:
        task: fairseq's task.
        reasons: the names of such switches, and for each the reason.
    """
    settings = task_settings(task)
    return [
        f"{flag_name(name)} is not supported by this model, got {settings[name]}: {reason}; leave it out"
        for name, reason in reasons.items()
        if settings.get(name)
    ]
