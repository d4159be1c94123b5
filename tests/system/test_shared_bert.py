"""The members of an ensemble share one BERT, which runs once for each sentence."""

from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.tasks import ensembles


def translate(path, data):
    """Return the ensemble's models, its task, and the best score of each sentence of the test set."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(path, arg_overrides={"data": data})
    for model in models:
        model.eval()
    task.load_dataset("test")
    generator = task.build_generator(models, SimpleNamespace(beam=2, max_len_b=10))
    batches = task.get_batch_iterator(task.dataset("test"), max_sentences=7).next_epoch_itr(shuffle=False)
    scores = {}
    for sample in batches:
        for number, hypotheses in zip(sample["id"].tolist(), task.inference_step(generator, models, sample)):
            scores[number] = float(hypotheses[0]["score"])
    return models, task, scores


def test_bert_runs_once_for_each_sentence_of_an_ensemble(workspace, plain, tmp_path, monkeypatch):
    """Of two fused models of one BERT, of fairseq's transformer, and of RNNsearch with that BERT."""
    workspace.train_gru(tmp_path, "--bert-model", workspace.bert_dir, "--max-epoch", "1")
    others = [str(folder / "checkpoint_last.pt") for folder in (plain, tmp_path)]
    members = [workspace.checkpoint, workspace.checkpoint, *others]
    read, run = [], FrozenBert._run
    count = lambda self, inputs: read.append(len(inputs["input_ids"])) or run(self, inputs)  # noqa: E731
    monkeypatch.setattr(FrozenBert, "_run", count)
    monkeypatch.setattr(
        "bert_fused_plugin.bert.pretrained_bert.PretrainedBert._depends_on_padding", lambda self: False
    )  # runs BERT, too
    models, task, scores = translate(members, workspace.data)
    readers = [model.encoder for model in models if hasattr(model.encoder, "bert")]
    assert len(readers) == 3
    assert len({id(encoder.bert) for encoder in readers}) == 1
    assert sum(read) == len(task.dataset("test"))

    monkeypatch.setattr(ensembles, "with_bert_states", lambda models, net_input: net_input)
    read.clear()
    assert translate(members, workspace.data)[2] == pytest.approx(scores, abs=1e-5)
    assert sum(read) == 3 * len(task.dataset("test"))
