"""What is wrong in the settings of a training and would otherwise be seen after hours, or never."""

import json
import os
from typing import Any, Dict, List, Mapping, Set

import torch
from fairseq import utils
from fairseq.data.data_utils import post_process
from fairseq.dataclass.configs import GenerationConfig
from fairseq.file_io import PathManager
from fairseq.logging import metrics

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.fairseq_settings import flags_beside, resumed_from

_HIGHER, _LOWER = ("bleu", "accuracy"), ("loss", "nll_loss", "ppl")  # metrics by the direction that is better
_FROM_ZERO = ("inverse_sqrt", "polynomial_decay", "reduce_lr_on_plateau")  # schedules whose warm-up begins with 0
_RESETS = ("reset_optimizer", "reset_dataloader", "reset_meters", "reset_lr_scheduler")


def training_errors(cfg: Any, settings: Mapping[str, Any]) -> List[str]:
    """Return a sentence for each mistake in the task's settings *cfg* and in the *settings* beside the model's."""
    if settings.get("save_dir") is None:  # no training
        return []
    errors = [] if settings.get("disable_validation") else [*_metric_errors(cfg, settings), *_bleu_errors(cfg)]
    return errors + _restore_errors(settings) + _rate_errors(settings) + _ema_errors(settings)


def _metric_errors(cfg: Any, settings: Mapping[str, Any]) -> List[str]:
    metric, errors = settings.get("best_checkpoint_metric"), []
    flag, direction = f"--best-checkpoint-metric {metric}", "--maximize-best-checkpoint-metric"
    if metric == "bleu" and not cfg.eval_bleu:
        errors.append(f"{flag} needs --eval-bleu, without which nothing computes it; add --eval-bleu")
    is_max = bool(settings.get("maximize_best_checkpoint_metric"))
    if metric in _HIGHER and not is_max:
        errors.append(f"{flag} needs {direction}, or the worst checkpoint is kept; add it")
    if metric in _LOWER and is_max:
        errors.append(f"{direction} with {flag} keeps the worst checkpoint, as lower is better; leave it out")
    every, saved = (settings.get(f"{name}_interval_updates") or 0 for name in ("validate", "save"))
    if (settings.get("patience") or 0) > 0 and every > 0 and (saved <= 0 or every % saved):
        errors.append(
            f"--validate-interval-updates {every} with --patience {settings['patience']} loses the best model, got "
            f"--save-interval-updates {saved}; give --save-interval-updates {every}"
        )
    return errors


def _bleu_errors(cfg: Any) -> List[str]:
    if not cfg.eval_bleu:
        return []
    errors = []
    try:
        post_process("", cfg.eval_bleu_remove_bpe)
    except NotImplementedError:
        kinds = "subword_nmt, sentencepiece, wordpiece, letter or _EOW"
        errors.append(f"--eval-bleu-remove-bpe {cfg.eval_bleu_remove_bpe} is no kind of subwords; give {kinds}")
    flag = f"--eval-bleu-args {cfg.eval_bleu_args}"
    example = '{"beam": 4, "lenpen": 0.6}'
    try:
        given, defaults = dict(json.loads(cfg.eval_bleu_args or "{}")), vars(GenerationConfig())
    except (TypeError, ValueError):
        return [*errors, f"{flag} must be a JSON object; give '{example}', for example"]
    if texts := sorted(
        name for name in given if isinstance(given[name], str) and isinstance(defaults.get(name), (int, float))
    ):
        errors.append(
            f"{flag} has texts for numbers ({', '.join(texts)}); write them without quotes, as in '{example}'"
        )
    if unknown := given.keys() - defaults.keys():
        errors.append(
            f"{flag} has names that are no flags of fairseq-generate: {', '.join(sorted(unknown))}; write a flag "
            "without its two dashes and with _ for -, such as max_len_b"
        )
    return errors


def _restore_errors(settings: Mapping[str, Any]) -> List[str]:
    named = settings.get("restore_file") or "checkpoint_last.pt"
    if named == "checkpoint_last.pt":
        return []
    suffix = settings.get("checkpoint_suffix") or ""
    path, save_dir = named.replace(".pt", f"{suffix}.pt"), os.path.abspath(settings["save_dir"])
    last = os.path.join(save_dir, f"checkpoint_last{suffix}.pt")
    if os.path.abspath(path) == last:  # a habit: the default, written out
        return []
    if not PathManager.exists(path):
        return [
            f"--restore-file {named} does not exist, seen from {os.getcwd()}; give a checkpoint, or leave it out to go "
            "on from checkpoint_last.pt of --save-dir"
        ]
    resets = [f"--{name.replace('_', '-')}" for name in _RESETS if settings.get(name)]
    is_own = os.path.dirname(os.path.abspath(path)) == save_dir  # such as checkpoint_best.pt, for another rate
    if resets and not is_own and os.path.exists(last):
        return [
            f"--restore-file {named} with {', '.join(resets)} would begin anew and overwrite {last}; leave them out to "
            "go on from there, or give another --save-dir"
        ]
    return []


def _rate_errors(settings: Mapping[str, Any]) -> List[str]:
    lowest, warmup = settings.get("stop_min_lr"), settings.get("warmup_updates") or 0
    if lowest is None or lowest < 0 or warmup <= 0 or settings.get("lr_scheduler") not in _FROM_ZERO:
        return []
    by_flag = settings.get("warmup_init_lr")  # polynomial_decay has none
    first = max(by_flag, 0) if by_flag is not None else 0
    if first > lowest or (settings["resumed"] and not settings.get("reset_optimizer")):
        return []
    remedy = "leave --stop-min-lr out" if by_flag is None else "give a higher --warmup-init-lr, such as 1e-07"
    return [
        f"--stop-min-lr {lowest} must be below the first learning rate of the warm-up, which is {first}, or the "
        f"training ends before it begins; {remedy}"
    ]


def _ema_errors(settings: Mapping[str, Any]) -> List[str]:
    half = next((f"--{name}" for name in ("fp16", "bf16") if settings.get(name)), None)
    if half is None or not settings.get("store_ema") or settings.get("ema_fp32"):
        return []
    return [
        f"--store-ema with {half} needs --ema-fp32, because most steps of the averages are too small for half "
        "precision, which rounds them to none; add it"
    ]


def trial_errors(task: Any, model: Any, criterion: Any, settings: Mapping[str, Any]) -> List[str]:
    """Make the batches of each validation, and validate on the longest sentence, as the training will do later.

    The *settings* are those of `settings_beside`.
    """
    if settings.get("save_dir") is None or settings.get("disable_validation"):
        return []
    errors = []
    # of argparse, these two are texts
    most, sentences = (
        settings[name] and int(float(settings[name])) for name in ("max_tokens_valid", "batch_size_valid")
    )
    for subset in filter(task.datasets.__contains__, settings["valid_subset"].split(",")):
        try:
            batches = task.get_batch_iterator(
                task.dataset(subset),
                most,
                max_sentences=sentences,
                max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
                ignore_invalid_inputs=settings["skip_invalid_size_inputs_valid_test"],
                disable_iterator_cache=True,
            ).frozen_batches
        except Exception as error:  # fairseq has no class for it
            errors.append(
                f"--valid-subset {subset} has sentences that no batch takes ({error}); give a larger "
                "--max-tokens-valid, or leave such sentences out with --skip-invalid-size-inputs-valid-test"
            )
            continue
        if not batches:
            errors.append(f"--valid-subset {subset} has no sentence for a batch; give one, or --disable-validation")
            continue
        try:
            metric, names = settings["best_checkpoint_metric"], _validate(task, model, criterion, subset, batches)
        except BertFusedError as error:
            errors += error.errors
            continue
        if metric not in names:
            flag = f"--best-checkpoint-metric {metric}"
            errors.append(f"{flag} must be what validation computes; give one of {', '.join(sorted(names))}")
    return list(dict.fromkeys(errors))


def _validate(task: Any, model: Any, criterion: Any, subset: str, batches: Any) -> Set[str]:
    """Return the names of what a validation computes, found with the longest sentence of *subset*.

    The search for BLEU is tried, too, with the shortest one, since a new model ends no sentence.

    Raises:
        BertFusedError: the search for BLEU fails, as with some values of ``--eval-bleu-args``.
    """
    dataset, parameter = task.dataset(subset), next(model.parameters())
    indices = sorted((i for batch in batches for i in batch), key=dataset.num_tokens)
    shortest, longest = utils.apply_to_sample(
        lambda tensor: tensor.to(parameter.device, parameter.dtype if tensor.is_floating_point() else None),
        [dataset.collater([dataset[indices[end]]]) for end in (0, -1)],
    )
    with utils.model_eval(model), utils.model_eval(criterion), torch.no_grad():
        _, _, logged = criterion(model, longest)
        if task.cfg.eval_bleu:
            _search(task, shortest, model, criterion)
    with metrics.aggregate(new_root=True) as computed:
        task.reduce_metrics([logged], criterion)
    return {*computed.get_smoothed_values(), *(["bleu"] if task.cfg.eval_bleu else [])}


def _search(task: Any, sample: Any, model: Any, criterion: Any) -> None:
    on_gpu = [parameter.device for parameter in model.parameters() if parameter.is_cuda][:1]
    with torch.random.fork_rng(on_gpu):  # it may sample
        try:
            task.valid_step(sample, model, criterion)
        except Exception as error:  # fairseq has no class for it
            raise BertFusedError(
                f"--eval-bleu-args {task.cfg.eval_bleu_args}: the search of the validation fails with "
                f"{type(error).__name__}: {error}; give other values"
            ) from error


def settings_beside(flags: Any) -> Dict[str, Any]:
    """Return the settings of those sections of fairseq that the checks read, which were given beside *flags*."""
    sections = ("common", "ema", "checkpoint", "dataset", "optimization", "lr_scheduler")
    settings = {key: value for section in sections for key, value in flags_beside(flags, section).items()}
    # of a command line, or of a YAML file, in which the section is the last with a name
    schedule = settings.get("lr_scheduler", settings.get("_name"))
    return {**settings, "lr_scheduler": schedule, "resumed": resumed_from(flags)}
