"""The demo's bilingual grammar: agreement, comparison, conjugation and word order in both languages."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "demo"))

from grammar import finish
from grammar.adverbials import MODAL_VERBS
from grammar.clause import Adjunct, Clause
from grammar.german import GermanVerb, decline_noun, prepositional_phrase
from grammar.lexicon import ADJECTIVES_OF, NOUNS, VERBS
from grammar.noun_phrase import NounPhrase
from grammar.phrase_sampler import PRONOUN_PHRASES

PERSONS = ("1sg", "2sg", "3sg", "1pl")


def phrase(text, plural=False, superlative=False):
    """`the old man` from the lexicon."""
    words = text.split()
    determiner, noun = words[0].replace("-", ""), NOUNS[words[-1]]
    fitting = [a for a in ADJECTIVES_OF[words[-1]] if a.english[0] in words[1:-1]]
    return NounPhrase.build(noun, determiner, plural, fitting[0] if len(words) > 2 else None, superlative)


def verb(infinitive, pattern):
    return next(v for v in VERBS[pattern] if v.english.infinitive == infinitive)


def pronoun(english):
    return next(p for p in PRONOUN_PHRASES if p.english() == english)


@pytest.mark.parametrize(
    ("text", "plural", "case", "german"),
    [
        ("the old man", False, "nom", "der alte Mann"),
        ("the old man", False, "acc", "den alten Mann"),
        ("the old man", False, "dat", "dem alten Mann"),
        ("the old man", False, "gen", "des alten Mannes"),
        ("the old man", True, "dat", "den alten Männern"),
        ("a old man", False, "nom", "ein alter Mann"),
        ("a old man", False, "acc", "einen alten Mann"),
        ("a small child", False, "nom", "ein kleines Kind"),
        ("a small child", False, "dat", "einem kleinen Kind"),
        ("my beautiful flower", False, "nom", "meine schöne Blume"),
        ("my beautiful flower", False, "dat", "meiner schönen Blume"),
        ("our new car", False, "acc", "unser neues Auto"),
        ("our new car", False, "gen", "unseres neuen Autos"),
        ("this expensive hat", False, "nom", "dieser teure Hut"),
        ("this expensive hat", False, "gen", "dieses teuren Hutes"),
        ("every high tree", False, "acc", "jeden hohen Baum"),
        ("the dark forest", False, "dat", "dem dunklen Wald"),
        ("the clever boy", False, "acc", "den klugen Jungen"),
        ("the brave soldier", False, "dat", "dem mutigen Soldaten"),
        ("three small child", True, "nom", "drei kleine Kinder"),
        ("three small child", True, "dat", "drei kleinen Kindern"),
        ("many tired teacher", True, "nom", "viele müde Lehrer"),
        ("all tired teacher", True, "nom", "alle müden Lehrer"),
        ("my good friend", True, "nom", "meine guten Freunde"),
        ("these ripe pear", True, "acc", "diese reifen Birnen"),
        ("- cold water", False, "acc", "kaltes Wasser"),
        ("- cold milk", False, "dat", "kalter Milch"),
        ("- good wine", False, "acc", "guten Wein"),
        ("Anna_'s red ball", False, "acc", "Annas roten Ball"),
    ],
)
def test_noun_phrase_agrees(text, plural, case, german):
    words = text.split(" ")
    words[0] = words[0].replace("_", " ")
    built = phrase("the " + " ".join(words[1:]), plural)
    built = NounPhrase.build(built.noun, words[0].replace("-", ""), plural, built.adjective)
    assert built.german(case) == german


def test_adjectives_are_compared():
    assert phrase("the old man", superlative=True).german("dat") == "dem ältesten Mann"
    assert phrase("the good wine", superlative=True).german("acc") == "den besten Wein"
    assert phrase("the expensive car", superlative=True).english() == "the most expensive car"
    table = {a.english[0]: a for adjectives in ADJECTIVES_OF.values() for a in adjectives}
    for english, comparative, german, superlative in [
        ("bad", "worse", "schlechter", "schlechtest"),
        ("happy", "happier", "glücklicher", "glücklichst"),
        ("dark", "darker", "dunkler", "dunkelst"),
        ("tired", "more tired", "müder", "müdest"),
        ("wide", "wider", "breiter", "breitest"),
    ]:
        assert (table[english].english[1], *table[english].german[1:]) == (comparative, german, superlative)


def test_nouns_decline():
    assert decline_noun("Apfel", "Apfels", "Äpfel", "m", "dat", True) == "Äpfeln"
    assert decline_noun("Auto", "Autos", "Autos", "n", "dat", True) == "Autos"
    assert NOUNS["story"].english_plural == "stories"
    assert NOUNS["thief"].english_plural == "thieves"


@pytest.mark.parametrize(
    ("entry", "present", "past", "participle", "zu"),
    [
        ("lesen liest las gelesen", "lese liest liest lesen", "las lasen", "gelesen", "zu lesen"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten", "arbeitete arbeiteten", "gearbeitet", "zu arbeiten"),
        ("öffnen", "öffne öffnest öffnet öffnen", "öffnete öffneten", "geöffnet", "zu öffnen"),
        ("putzen", "putze putzt putzt putzen", "putzte putzten", "geputzt", "zu putzen"),
        ("sammeln", "sammle sammelst sammelt sammeln", "sammelte sammelten", "gesammelt", "zu sammeln"),
        ("besuchen", "besuche besuchst besucht besuchen", "besuchte besuchten", "besucht", "zu besuchen"),
        ("reparieren", "repariere reparierst repariert reparieren", "reparierte reparierten", "repariert", None),
        ("vor|bereiten", "bereite bereitest bereitet bereiten", "bereitete bereiteten", "vorbereitet", None),
        ("ein|laden lädt lud eingeladen", "lade lädst lädt laden", "lud luden", "eingeladen", "einzuladen"),
        ("halten hält hielt gehalten", "halte hältst hält halten", "hielt hielten", "gehalten", None),
        ("wissen weiß wusste gewusst", "weiß weißt weiß wissen", "wusste wussten", "gewusst", None),
        ("haben hat hatte gehabt", "habe hast hat haben", "hatte hatten", "gehabt", "zu haben"),
        ("schreien schreit schrie geschrien", "schreie schreist schreit schreien", "schrie schrien", "geschrien", None),
    ],
)
def test_verbs_conjugate(entry, present, past, participle, zu):
    german = GermanVerb.parse(entry)
    assert [german.present(person) for person in PERSONS] == present.split()
    assert [german.past(person) for person in ("3sg", "1pl")] == past.split()
    assert german.participle == participle
    assert zu is None or german.zu_infinitive == zu


def give(**options):
    options = {"indirect": phrase("the small child"), "object": phrase("a red apple"), **options}
    return Clause(phrase("the old man"), verb("give", "ditransitive"), **options)


@pytest.mark.parametrize(
    ("clause", "english", "german"),
    [
        (give(), "the old man gives the small child a red apple",
         "der alte Mann gibt dem kleinen Kind einen roten Apfel"),
        (give(tense="perfect"), "the old man has given the small child a red apple",
         "der alte Mann hat dem kleinen Kind einen roten Apfel gegeben"),
        (give(negated=True), "the old man does not give the small child a red apple",
         "der alte Mann gibt dem kleinen Kind keinen roten Apfel"),
        (give(tense="past", negated=True, object=phrase("the red apple")),
         "the old man did not give the small child the red apple",
         "der alte Mann gab dem kleinen Kind den roten Apfel nicht"),
        (give(tense="future", indirect=pronoun("she"), time=Adjunct("tomorrow", "morgen")),
         "the old man will give her a red apple tomorrow",
         "der alte Mann wird ihr morgen einen roten Apfel geben"),
        (give(progressive=True, object=phrase("- cold milk")), "the old man is giving the small child cold milk",
         "der alte Mann gibt dem kleinen Kind kalte Milch"),
        (Clause(pronoun("you"), verb("read", "transitive"), object=phrase("my new book"), progressive=True),
         "you are reading my new book", "du liest mein neues Buch"),
        (Clause(pronoun("we"), verb("wait for", "prepositional"), object=phrase("the train"), negated=True),
         "we do not wait for the train", "wir warten nicht auf den Zug"),
        (Clause(pronoun("they"), verb("help", "dative"), tense="past", object=pronoun("I")),
         "they helped me", "sie halfen mir"),
        (Clause(pronoun("he"), verb("call", "transitive"), object=pronoun("she"), time=Adjunct("today", "heute")),
         "he calls her today", "er ruft sie heute an"),
        (Clause(phrase("the train"), verb("arrive", "intransitive"), tense="perfect"),
         "the train has arrived", "der Zug ist angekommen"),
    ],
)  # fmt: skip
def test_clause_in_both_languages(clause, english, german):
    assert (clause.english(), clause.german_statement()) == (english, german)


def test_word_orders():
    clause = Clause(phrase("the father"), verb("call", "transitive"), object=phrase("my sister"), modal=MODAL_VERBS[0])
    assert clause.english(question=True) == "does the father call my sister"
    assert clause.german_question() == "ruft der Vater meine Schwester an"
    assert clause.german_statement("heute") == "heute ruft der Vater meine Schwester an"
    assert clause.german_subordinate("weil") == "weil der Vater meine Schwester anruft"
    assert clause.german_infinitive() == "meine Schwester anzurufen"
    for tense, ending in [("perfect", "angerufen hat"), ("future", "anrufen wird"), ("modal", "anrufen kann")]:
        other = Clause(clause.subject, clause.verb, tense, object=clause.object, modal=clause.modal)
        assert other.german_subordinate("dass") == f"dass der Vater meine Schwester {ending}"
    joined = [prepositional_phrase(*pair) for pair in (("in", "dem Haus"), ("in", "der Stadt"), ("zu", "der Brücke"))]
    assert joined == ["im Haus", "in der Stadt", "zur Brücke"]
    assert finish("der Mann , der singt , .") == "Der Mann , der singt ."
