"""How the task cuts sources that are too long for the model, and what it warns of."""

import shutil
from argparse import Namespace
from inspect import signature

import pytest
import torch
from fairseq.tasks.translation import TranslationTask
from helpers import GRU_SIZES, SIZES, dictionary_of, encode, translation_task
from omegaconf import OmegaConf

from bert_fused_plugin.tasks.bert_fused_translation import BertFusedTranslationTask

LAUNCH = {"save_dir": "nowhere", "restore_file": "checkpoint_last.pt", "checkpoint_suffix": ""}
LINES = ["the old man sees a small red dog", "a dog", "the big house eats ."]
CUT = ["the old man sees", "a dog", "the big house eats"]  # to 5 tokens


@pytest.fixture
def task(tmp_path, dictionary):
    """A task on text files, of at most 5 source tokens with the end of sentence."""
    for split in ("train", "test"):
        for lang in ("en", "de"):
            (tmp_path / f"{split}.en-de.{lang}").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    settings = {"dataset_impl": "raw", "train_subset": "train", "required_seq_len_multiple": 1}
    return translation_task(dictionary, data=str(tmp_path), max_source_positions=5, **settings)


def test_long_sources_of_a_test_set_are_cut_and_the_settings_stay(task, dictionary, caplog):
    task.load_dataset("test")
    dataset = task.datasets["test"]
    assert [dictionary.string(dataset[i]["source"]) for i in range(3)] == CUT
    assert all(dataset[i]["source"][-1] == dictionary.eos() for i in range(3))
    assert dictionary.string(dataset[0]["target"]) == dataset.src.get_original_text(0) == LINES[0]
    assert (task.cfg.truncate_source, task.cfg.max_source_positions) == (False, 5)
    assert "test: 2 sources are cut to 5 tokens (--max-source-positions)" in caplog.messages


def test_the_training_set_is_cut_only_where_it_is_translated(task, dictionary):
    """fairseq-generate and fairseq-validate pass the settings of the checkpoint."""
    for settings, source in (({}, LINES[0]), ({"task_cfg": task.cfg}, CUT[0])):
        task.load_dataset("train", **settings)
        assert dictionary.string(task.datasets["train"][0]["source"]) == source


def test_long_lines_of_a_buffer_are_cut(task, dictionary, caplog):
    lines = [encode(dictionary, line) for line in LINES]
    dataset = task.build_dataset_for_inference(lines, list(map(len, lines)))
    assert [dictionary.string(dataset[i]["source"]) for i in range(3)] == CUT
    assert len(lines[0]) == 9
    assert "a source line of 9 tokens is cut to 5 (--max-source-positions 5)" in caplog.messages


def test_a_language_model_reaches_the_generator(task, build):
    model, search = torch.nn.Identity(), Namespace(num_shards=1, constraints=None)
    generator = task.build_generator([build()], search, extra_gen_cls_kwargs={"lm_model": model, "lm_weight": 3})
    assert (generator.lm_model, generator.lm_weight) == (model, 3)


@pytest.mark.parametrize("language", ["fr", "fr_CA"])
def test_moses_splits_by_the_rules_of_a_language_with_its_region(task, language):
    switches = {"moses_no_dash_splits": False, "moses_no_escape": False}
    cfg = OmegaConf.create({"_name": "moses", "source_lang": language, "target_lang": "de", **switches})
    assert task.build_tokenizer(cfg).encode("l'homme") == "l&apos; homme"


def test_a_step_of_translation_takes_its_arguments_in_fairseqs_order():
    ours, stock = (signature(task.inference_step) for task in (BertFusedTranslationTask, TranslationTask))
    assert list(ours.parameters) == list(stock.parameters)


def test_fairseq_keeps_the_batches_of_loaded_data_sets_alone(task, dictionary):
    task.load_dataset("train")
    assert task.can_reuse_epoch_itr(task.datasets["train"])
    lines = [encode(dictionary, line) for line in LINES]
    assert not task.can_reuse_epoch_itr(task.build_dataset_for_inference(lines, list(map(len, lines))))


def test_flags_for_bert_beside_a_model_without_bert_are_named(dictionary, caplog):
    task = translation_task(dictionary, bert_cache="x")
    task.build_model(Namespace(**GRU_SIZES, arch="gru_dot"), from_checkpoint=True)
    assert "GruModel does not read BERT and so does not use --bert-cache" in caplog.messages


@pytest.mark.parametrize(
    ("symbols", "flags", "subwords", "words"),
    [
        (["▁it", "s"], {"eval_bleu_remove_bpe": "@@ "}, 1, 0),
        (["▁it", "s"], {"eval_bleu_remove_bpe": "sentencepiece"}, 0, 0),
        (["it@@", "s"], {}, 1, 0),
        (["it@@", "s"], {"eval_bleu_remove_bpe": "@@ "}, 0, 0),
        (["it", "s"], {}, 0, 0),
        (["it@@", "s"], {"eval_bleu": False}, 0, 0),
        (["▁我", "们"], {"eval_bleu_remove_bpe": "sentencepiece", "target_lang": "zh"}, 0, 1),
        (["▁我", "们"], {"target_lang": "zh"}, 0, 0),
        (["▁我", "们"], {}, 1, 0),
    ],
)
def test_bleu_of_subwords_and_of_words_without_spaces_is_warned_of(bert_dir, caplog, symbols, flags, subwords, words):
    task = translation_task(dictionary_of(*symbols), **{"eval_bleu": True, **flags})
    task.build_model(Namespace(**SIZES, arch="bert_fused", bert_model=bert_dir, **LAUNCH))
    assert caplog.text.count("--eval-bleu scores subwords and not words; give --eval-bleu-remove-bpe") == subwords
    said = "--eval-bleu counts words, and zh has no spaces between them; leave out --eval-bleu-remove-bpe and"
    assert caplog.text.count(said) == words


@pytest.mark.parametrize(
    ("cased", "symbols", "flags", "times"),
    [
        (True, ["it@@", "s"], {}, 1),
        (True, ["It@@", "s"], {}, 0),
        (True, ["<2de_DE>", "it@@", "s"], {}, 1),
        (True, ["این", "است", "a"], {}, 0),
        (True, ["ეს", "არის"], {}, 0),
        (True, ["it@@", "s"], {"bert_text": "raw"}, 0),
        (False, ["it@@", "s"], {}, 0),
    ],
)
def test_a_cased_bert_for_lower_cased_text_is_warned_of(bert_dir, tmp_path, caplog, cased, symbols, flags, times):
    bert = shutil.copytree(bert_dir, tmp_path / "bert")
    settings = (bert / "tokenizer.json").read_text(encoding="utf-8")
    if cased:
        (bert / "tokenizer.json").write_text(settings.replace('"lowercase": true', '"lowercase": false'))
    tags = ",".join(symbol for symbol in symbols if symbol[0] == "<") or None
    task = translation_task(dictionary_of(*symbols), **flags)
    task.build_model(Namespace(**SIZES, arch="bert_fused", bert_model=str(bert), bert_strip_tags=tags, **LAUNCH))
    assert caplog.text.count("distinguishes capitals, but the source dictionary has none; give an uncased") == times
    loses = cased and symbols[0] == "It@@"  # this BERT has no piece with a capital
    assert caplog.text.count("knows no capitals, and the source dictionary has some; give --bert-tokenizer-o") == loses


def test_input_that_bert_was_not_trained_on_is_warned_of(bert_dir, caplog):
    task = translation_task(dictionary_of("it", "<2de>"))
    for flags, times in (({}, 1), ({"bert_strip_tags": "<2de>"}, 0)):
        caplog.clear()
        task.build_model(Namespace(**SIZES, arch="bert_fused", bert_model=bert_dir, **LAUNCH, **flags))
        assert caplog.text.count("symbols like <2de>, maybe tags of languages; consider --bert-strip-tags") == times
