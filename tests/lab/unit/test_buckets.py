"""Groups of sentences by length and by rare words."""

from collections import Counter
from types import SimpleNamespace

from bert_fused_lab.evidence import training_words
from bert_fused_lab.evidence.collection import _rare
from bert_fused_lab.evidence.training_words import count_training_words, words_of
from bert_fused_lab.report.comparison import by_length, by_rare_words


def test_groups_of_lengths():
    groups = by_length([1, 10, 11, 30, 31, 400, 2])
    expected = [("1-10", [0, 1, 6]), ("11-15", [2]), ("26-30", [3]), ("over 30", [4, 5])]
    assert list(groups.items()) == expected


def test_rare_words_are_words_and_not_subwords(dictionary):
    """Both subwords of house are frequent, the word is not."""
    line = dictionary.encode_line("the hou@@ se sees play@@ se", add_if_not_exist=False).tolist()
    words = words_of(dictionary, line, "subword_nmt")
    assert [len(word) for word in words] == [1, 2, 1, 2]
    the, house, sees, _ = words
    seen = Counter({the: 100, house: 6, sees: 5})
    sentences = [words, [the, house], [], [sees] * 7, [sees] * 3]
    groups = by_rare_words([_rare(sentence, seen) for sentence in sentences])
    assert list(groups.items()) == [("none", [1, 2]), ("2", [0]), ("3 or more", [3, 4])]


def test_a_word_that_the_dictionary_does_not_know_is_rare(dictionary, monkeypatch):
    """The symbol of unknown words is frequent in the training data, where it stands for many words."""
    line = dictionary.encode_line("the unheard-of hou@@ se", add_if_not_exist=False)
    assert dictionary.unk() in line
    sizes = {"train": 60, "train1": 40}
    monkeypatch.setattr(
        training_words, "source_side", lambda _, split, task: [line] * sizes[split] if split in sizes else None
    )
    task = SimpleNamespace(cfg=SimpleNamespace(source_lang="en", target_lang="de"), source_dictionary=dictionary)
    words = words_of(dictionary, line.tolist(), "subword_nmt")
    seen = count_training_words(task, "data", "subword_nmt", [words])
    assert [seen[word] for word in words] == [100, 0, 100]
    assert by_rare_words([_rare(words, seen)]) == {"1": [0]}
