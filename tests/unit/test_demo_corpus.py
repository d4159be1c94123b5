"""The demo's corpus: its words depend on the context, its splits share no sentence, and it is the same everywhere."""

import hashlib

from grammar import Grammar
from make_corpus import main, make_pairs

SPLITS = ("train", "valid", "test")


def test_the_context_decides_on_the_translation():
    """Each of these words has both translations in the corpus, but a sentence has only one."""
    grammar, translations = Grammar(5), {}
    for _ in range(20000):
        english, german = grammar.sentence()
        assert translations.setdefault(english, german) == german, english
    for word, *choices in [
        ("eats", "isst", "frisst"), ("when", "wenn", "als"), ("when", "wann", "wenn"), ("know", "kennen", "wissen"),
        ("light", "leicht", "hell"), ("bat", "schläger", "fledermaus"), ("bank", "bank", "ufer"), ("her", "sie", "ihr"),
        ("it", "er", "sie"), ("leave", "verlassen", "abfahren"),
    ]:  # fmt: skip
        found = [german.lower() for english, german in translations.items() if word in english.lower().split()]
        for choice in choices:
            assert any(choice in german for german in found), (word, choice)


def read(folder, language):
    """The lines of all splits, and how many each split has."""
    splits = [(folder / f"{split}.{language}").read_text(encoding="utf-8").splitlines() for split in SPLITS]
    return [line for lines in splits for line in lines], [len(lines) for lines in splits]


def test_splits(tmp_path):
    for folder, seed in [("a", "1"), ("b", "1"), ("c", "2")]:
        main([str(tmp_path / folder), "--train", "2000", "--valid", "150", "--test", "120", "--seed", seed])
    for language in ("en", "de"):
        lines, sizes = read(tmp_path / "a", language)
        assert sizes == [2000, 150, 120]
        assert len(set(lines)) == len(lines)
        assert all(line == " ".join(line.split()) and line[0].isupper() and line[-1] in ".?" for line in lines)
        assert (lines, sizes) == read(tmp_path / "b", language)
        assert lines != read(tmp_path / "c", language)[0]


def test_the_sentences_are_the_same_on_every_python():
    pairs = make_pairs(2000, seed=1)
    assert pairs[0] == (
        "Unfortunately , he has not offered Anna 's hungry policemen the good coffee .",
        "Leider hat er Annas hungrigen Polizisten den guten Kaffee nicht angeboten .",
    )
    text = "\n".join(line for pair in pairs for line in pair)
    assert hashlib.sha256(text.encode("utf-8")).hexdigest()[:16] == "1125014ca3126d91"
