"""The cost model against sums by hand."""

import importlib.util
from pathlib import Path

import pytest

from bert_fused_plugin.data import cached_states

spec = importlib.util.spec_from_file_location("cost_model", Path(__file__).parents[2] / "benchmarks" / "cost_model.py")
cost_model = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cost_model)
Corpus, Machine, cost = cost_model.Corpus, cost_model.Machine, cost_model.cost

# 36 kB of training words in 10 s, 50 s of BERT, 3,600,000 bytes of states
CORPUS = Corpus(pairs=100, pieces=5, words=4, width=3600)


def machine(**changed):
    return Machine(**{"bert_rate": 10, "train_rate": 40, "read_rate": 36_000, "memory": 0, "devices": 2, **changed})


def hours(*seconds):
    return pytest.approx(sum(seconds) / 3600)


def test_the_cache_holds_two_bytes_for_each_number():
    assert CORPUS.cache_bytes == 100 * 5 * 3600 * 2


def test_without_the_cache_every_epoch_pays_for_bert_on_all_devices():
    assert cost(CORPUS, machine(), epochs=3, gpus=1).uncached == hours(3 * (10 + 50))
    assert cost(CORPUS, machine(), epochs=3, gpus=2).uncached == hours(3 * (5 + 25))


def test_with_the_cache_the_slower_of_reading_and_training_counts():
    slow_disk = cost(CORPUS, machine(), epochs=3, gpus=1)  # 100 s to read
    assert slow_disk.build == hours(50)
    assert slow_disk.cached == hours(50, 3 * 100)
    assert cost(CORPUS, machine(read_rate=3.6e6), epochs=3, gpus=1).cached == hours(50, 3 * 10)
    four = cost(CORPUS, machine(), epochs=3, gpus=4)  # two machines, each reads half
    assert four.cached == hours(50, 3 * 50)


def test_devices_share_the_blocks_of_the_cache():
    large = Corpus(pairs=8000, pieces=5, words=4, width=1800)  # 144 MB: 3 blocks
    assert cost(large, machine(), epochs=3, gpus=1).build == hours(4000)
    assert cost(large, machine(), epochs=3, gpus=2).build == hours(4000 / 2)
    assert cost(large, machine(), epochs=3, gpus=64).build == hours(4000 / 3)
    assert cached_states._BLOCK_BYTES == cost_model.BLOCK_BYTES


def test_what_fits_into_memory_is_read_once():
    assert cost(CORPUS, machine(memory=3.6e6), epochs=3, gpus=1).cached == hours(50, 100, 2 * 10)


def test_the_break_even_rate_is_that_of_the_states_bert_makes():
    assert cost_model.break_even_rate(768, 1000) == 1000 * 768 * 2


@pytest.mark.parametrize("flag", ["--bert-rate nan", "--pairs inf", "--memory -5", "--gpus 0", "--width 0"])
def test_numbers_that_say_nothing_are_refused(monkeypatch, capsys, flag):
    rates = "--bert-rate 1 --train-rate 1 --read-rate 1"
    monkeypatch.setattr("sys.argv", ["cost_model.py", *rates.split(), *flag.split()])
    with pytest.raises(SystemExit):
        cost_model.parse_args()
    assert f"{flag.split()[0]} " in capsys.readouterr().err.splitlines()[-1]
