"""The demo's corpus: its phrases agree, its words depend on the context, and its splits share no sentence."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "demo"))

from grammar import COPULA, NAMES, NOUNS, PRONOUNS, VERBS, Clause, Grammar, noun_phrase
from make_corpus import main, make_pairs

SPLITS = ("train", "valid", "test")
NOUN = {noun.german: noun for noun in NOUNS}
VERB = {verb.prefix + verb.german[0] + verb.preposition: verb for verb in VERBS}
PERSON = {phrase.english[0]: phrase for phrase in (*NAMES, *PRONOUNS)}


def phrase(determiner, adjective, german, plural=False):
    adjectives = dict(NOUN[german].adjectives)
    return noun_phrase(NOUN[german], determiner, (adjective, adjectives[adjective]) if adjective else ("", ""), plural)


@pytest.mark.parametrize(
    ("words", "cases"),
    [
        (("the", "old", "Mann"), "der alte Mann | den alten Mann | dem alten Mann"),
        (("the", "young", "Junge"), "der junge Junge | den jungen Jungen | dem jungen Jungen"),
        (("the", "old", "Mann", True), "die alten Männer | die alten Männer | den alten Männern"),
        (("a", "small", "Kind"), "ein kleines Kind | ein kleines Kind | einem kleinen Kind"),
        (("my", "blue", "Vase"), "meine blaue Vase | meine blaue Vase | meiner blauen Vase"),
        (("our", "expensive", "Mantel"), "unser teurer Mantel | unseren teuren Mantel | unserem teuren Mantel"),
        (("every", "tired", "Kuh"), "jede müde Kuh | jede müde Kuh | jeder müden Kuh"),
        (("two", "dark", "Küche", True), "zwei dunkle Küchen | zwei dunkle Küchen | zwei dunklen Küchen"),
        (("", "cold", "Milch"), "kalte Milch | kalte Milch | kalter Milch"),
        (("Anna 's", "red", "Ball"), "Annas roter Ball | Annas roten Ball | Annas rotem Ball"),
    ],
)
def test_noun_phrases_agree(words, cases):
    assert list(phrase(*words).german.values()) == cases.split(" | ")


MAN, CHILD = phrase("the", "old", "Mann"), phrase("the", "small", "Kind")
TODAY = ("today", "heute")


@pytest.mark.parametrize(
    ("clause", "english", "german"),
    [
        (Clause(MAN, VERB["geben"], "past", phrase("a", "red", "Apfel"), CHILD),
         "the old man gave the small child a red apple", "der alte Mann gab dem kleinen Kind einen roten Apfel"),
        (Clause(MAN, VERB["geben"], "perfect", phrase("a", "red", "Apfel"), CHILD, negated=True),
         "the old man has not given the small child a red apple",
         "der alte Mann hat dem kleinen Kind keinen roten Apfel gegeben"),
        (Clause(PERSON["he"], VERB["anrufen"], "present", PERSON["she"], time=TODAY),
         "he calls her today", "er ruft sie heute an"),
        (Clause(PERSON["you"], VERB["lesen"], "would like to", phrase("my", "new", "Buch"), negated=True),
         "you would not like to read my new book", "du möchtest mein neues Buch nicht lesen"),
        (Clause(PERSON["they"], VERB["helfen"], "past", PERSON["I"]), "they helped me", "sie halfen mir"),
        (Clause(PERSON["we"], VERB["wartenauf"], "future", phrase("the", "", "Zug"), negated=True),
         "we will not wait for the train", "wir werden nicht auf den Zug warten"),
        (Clause(PERSON["you"], VERB["essen"]), "you eat", "du isst"),
        (Clause(phrase("the", "", "Katze"), VERB["fressen"]), "the cat eats", "die Katze frisst"),
        (Clause(phrase("the", "", "Zug"), VERB["abfahren"], "perfect"), "the train has left", "der Zug ist abgefahren"),
        (Clause(PERSON["I"], VERB["verlassen"], "present", phrase("the", "light", "Kirche")),
         "I leave the light church", "ich verlasse die helle Kirche"),
        (Clause(PERSON["I"], COPULA, "present", predicate=("old", "alt")), "I am old", "ich bin alt"),
    ],
)  # fmt: skip
def test_clauses_in_both_languages(clause, english, german):
    assert (clause.english(), clause.german()) == (english, german)


def test_word_orders():
    clause = Clause(MAN, VERB["anrufen"], "present", CHILD)
    assert clause.english(question=True) == "does the old man call the small child"
    assert clause.german("first") == "ruft der alte Mann das kleine Kind an"
    assert clause.german(front="heute") == "heute ruft der alte Mann das kleine Kind an"
    assert clause.german("last") == "der alte Mann das kleine Kind anruft"
    assert (
        Clause(MAN, VERB["anrufen"], "perfect", CHILD).german("last") == "der alte Mann das kleine Kind angerufen hat"
    )


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
    first, second = make_pairs(2, seed=1)
    assert first == (
        "Unfortunately , he has not offered Anna 's hungry policemen the good coffee .",
        "Leider hat er Annas hungrigen Polizisten den guten Kaffee nicht angeboten .",
    )
    assert second == (
        "The big cat has not eaten the pears because they were big .",
        "Die große Katze hat die Birnen nicht gefressen , weil sie groß waren .",
    )
