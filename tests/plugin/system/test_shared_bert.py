"""BERT runs once for each sentence, for all members of an ensemble and for all that a validation does."""

from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.source import source_of


@pytest.fixture
def read(monkeypatch):
    """The number of sentences in each run of BERT."""
    counts, run = [], FrozenBert._run
    count = lambda self, inputs: counts.append(len(inputs["input_ids"])) or run(self, inputs)  # noqa: E731
    monkeypatch.setattr(FrozenBert, "_run", count)
    monkeypatch.setattr(
        "bert_fused_plugin.bert.pretrained_bert.PretrainedBert._depends_on_padding", lambda self: False
    )  # runs BERT, too
    monkeypatch.setattr("bert_fused_plugin.bert.pretrained_bert.PretrainedBert.probe", lambda self: None)
    return counts


def batches(task, split):
    task.load_dataset(split)
    return task.get_batch_iterator(task.dataset(split), max_sentences=7).next_epoch_itr(shuffle=False)


def translate(path, data):
    """Return the ensemble's models and its task after a translation of the test set."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(path, arg_overrides={"data": data})
    for model in models:
        model.eval()
    generator = task.build_generator(models, SimpleNamespace(beam=2, max_len_b=10))
    for sample in batches(task, "test"):
        task.inference_step(generator, models, sample)
    return models, task


def test_bert_runs_once_for_each_sentence_of_an_ensemble(workspace, plain, tmp_path, read):
    """Of two fused models of one BERT, of fairseq's transformer, and of RNNsearch with that BERT."""
    workspace.train_gru(tmp_path, "--bert-model", workspace.bert_dir, "--max-epoch", "1")
    others = [str(folder / "checkpoint_last.pt") for folder in (plain, tmp_path)]
    models, task = translate([workspace.checkpoint, workspace.checkpoint, *others], workspace.data)
    readers = [source for source in map(source_of, models) if source is not None]
    assert len(readers) == 3
    assert len({id(source.bert.model) for source in readers}) == 1
    assert sum(read) == len(task.dataset("test"))


def test_bert_runs_once_for_each_sentence_of_a_validation_with_eval_bleu(workspace, read):
    overrides = {"data": workspace.data, "eval_bleu": True, "eval_bleu_args": '{"beam": 1, "max_len_b": 5}'}
    [model], cfg, task = checkpoint_utils.load_model_ensemble_and_task([workspace.checkpoint], arg_overrides=overrides)
    criterion = task.build_criterion(cfg.criterion)
    for sample in batches(task, "valid"):
        loss, _, logged = task.valid_step(sample, model.eval(), criterion)
        assert loss > 0
        assert logged["_bleu_ref_len"] > 0
    assert sum(read) == len(task.dataset("valid"))
