"""Before the first update, mistakes that would cost a night are errors, and usual commands are not."""

from argparse import Namespace

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from helpers import translation_task
from omegaconf import OmegaConf

from bert_fused_plugin.data.data_bin import data_errors
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig
from bert_fused_plugin.tasks.training_checks import settings_beside, training_errors

BLEU = "--best-checkpoint-metric bleu"
UP = "--maximize-best-checkpoint-metric"
RESETS = "--reset-optimizer --reset-dataloader --reset-meters --reset-lr-scheduler"
EXAMPLE = '--eval-bleu --eval-bleu-args {"beam":5,"max_len_a":1.2,"max_len_b":10} --eval-bleu-remove-bpe'
WARMUP = "--lr-scheduler inverse_sqrt --warmup-updates 4000 --stop-min-lr 1e-9"
POLYNOMIAL = "--lr-scheduler polynomial_decay --total-num-update 9 --warmup-updates 5"
INTERVALS = "--patience 3 --validate-interval-updates 4"
WRONG = [
    (f"{BLEU} {UP}", ["--best-checkpoint-metric bleu needs --eval-bleu, without which"]),
    (f"{BLEU} --eval-bleu", ["bleu needs --maximize-best-checkpoint-metric, or the worst"]),
    ("--best-checkpoint-metric accuracy", ["accuracy needs --maximize-best-checkpoint-metric"]),
    (BLEU, ["needs --eval-bleu", f"needs {UP}"]),
    *((f"{UP} --best-checkpoint-metric {name}", [f"{name} keeps the worst"]) for name in ("loss", "ppl", "nll_loss")),
    (INTERVALS, ["--validate-interval-updates 4 with --patience 3 loses the*give --save-interval-updates 4"]),
    (f"{INTERVALS} --save-interval-updates 8", ["got --save-interval-updates 8; give --save-interval-updates 4"]),
    ("--eval-bleu --eval-bleu-remove-bpe spm", ["--eval-bleu-remove-bpe spm is no kind of subwords"]),
    ('--eval-bleu --eval-bleu-args {"beam":1,"max-len-b":3,"tokenize":"char"}', ["generate: max-len-b, tokenize; "]),
    ('--eval-bleu --eval-bleu-args {"beam":"4","lenpen":"0.6"}', ["has texts for numbers (beam, lenpen); write them"]),
    ("--eval-bleu --eval-bleu-args beam", ["--eval-bleu-args beam must be a JSON object; give"]),
    ("--restore-file lsat.pt", ["--restore-file lsat.pt does not exist, seen from * give a checkpoint"]),
    ("--store-ema --fp16", ["--store-ema with --fp16 needs --ema-fp32, because * add it"]),
    (f"--restore-file x.pt {RESETS}", ["--restore-file x.pt with --reset-optimizer, * would begin anew and overwrite"]),
    (f"{WARMUP} --save-dir new", ["--stop-min-lr 1e-09 must be below * which is 0, * give a higher --warmup-init-lr"]),
    (f"{POLYNOMIAL} --stop-min-lr 0 --save-dir new", ["--stop-min-lr 0.0 must be below * leave --stop-min-lr out"]),
]
RIGHT = [
    "",
    "--store-ema",
    "--store-ema --bf16 --ema-fp32",
    f"{BLEU} {UP} {EXAMPLE}",
    f"{BLEU} --disable-validation",
    f"{UP} --best-checkpoint-metric own_score",
    f"{INTERVALS} --save-interval-updates 4",
    f"{INTERVALS} --save-interval-updates 2",
    "--validate-interval-updates 4",
    "--restore-file x.pt",
    f"--restore-file x.pt {RESETS} --save-dir new",
    f"--restore-file save/checkpoint_best.pt {RESETS}",
    "--restore-file new/checkpoint_last.pt --save-dir new",
    f"{WARMUP} --warmup-init-lr 1e-07 --save-dir new",
    f"{WARMUP} --stop-min-lr -1 --save-dir new",
    f"{POLYNOMIAL} --save-dir new",
    WARMUP,  # goes on
    f"{WARMUP} --restore-file x.pt --save-dir new",
]


@pytest.fixture
def errors_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "save").mkdir()
    for name in ("x.pt", "save/checkpoint_last.pt", "save/checkpoint_best.pt"):
        (tmp_path / name).touch()

    def errors(words):
        given = "data --task bert_fused_translation --arch transformer_tiny --lr 0.1 --save-dir save".split()
        parser = options.get_training_parser()
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, [*given, *words.split()]))
        return training_errors(cfg.task, settings_beside(cfg.model))

    return errors


@pytest.mark.parametrize(("words", "sentences"), WRONG)
def test_a_mistake_is_named(errors_of, words, sentences):
    errors = errors_of(words)
    assert len(errors) == len(sentences)
    for error, sentence in zip(errors, sentences):
        place = 0
        for part in sentence.split("*"):
            assert part in error[place:], error
            place = error.index(part, place)


@pytest.mark.parametrize("words", RIGHT)
def test_what_is_right_passes(errors_of, words):
    assert errors_of(words) == []


def test_the_sections_of_a_yaml_file_are_read(tmp_path):
    schedule = {"_name": "inverse_sqrt", "warmup_updates": 5, "warmup_init_lr": -1.0}
    kept = {"save_dir": str(tmp_path), "best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": True}
    sections = {"checkpoint": kept, "optimization": {"stop_min_lr": 0.0}, "lr_scheduler": schedule, "dataset": {}}
    cfg = OmegaConf.create({"model": {"_name": "bert_fused"}, **sections})
    assert len(training_errors(BertFusedTranslationConfig(), settings_beside(cfg.model))) == 2


def test_the_task_checks_before_it_builds_a_model(dictionary, tmp_path):
    flags = {"save_dir": str(tmp_path), "best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": False}
    with pytest.raises(BertFusedError, match="needs --eval-bleu") as caught:
        translation_task(dictionary).build_model(Namespace(**flags))
    assert len(caught.value.errors) == 2


def test_several_language_pairs_need_their_names(tmp_path):
    for pair in ("en-de", "en-fr"):
        for lang in pair.split("-"):
            (tmp_path / f"dict.{lang}.txt").touch()
            (tmp_path / f"train.{pair}.{lang}.bin").touch()
    [error] = data_errors(str(tmp_path), None, None)
    assert "has several language pairs, en-de, en-fr; give --source-lang" in error
    assert data_errors(str(tmp_path), "en", "fr") == []


def test_a_part_of_a_test_set_is_refused(dictionary):
    task = translation_task(dictionary)
    task.datasets["test"] = []
    with pytest.raises(BertFusedError, match=r"--num-shards 2 has no effect .* --distributed-world-size N"):
        task.build_generator([], Namespace(num_shards=2, constraints=None), extra_gen_cls_kwargs={})
