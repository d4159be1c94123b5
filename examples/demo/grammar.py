"""The demo's grammar: it draws pairs of an English sentence and its German translation.

The German finite verb stands second in a statement, first in a question and last in a subordinate clause.  The rest
of the verb closes the clause.  Pronouns, indirect object, time, object, negation and place stand between them.
"""

import random
from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

import lexicon

Item = TypeVar("Item")
Pair = Tuple[str, str]
NONE = ("", "")
CASES = ("nom", "acc", "dat")
# The columns of these tables are masculine, feminine, neuter and plural.
COLUMNS = "mfnp"
THE = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"}
THAT = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem denen"}
IT = "er sie es sie"
STRONG = {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en"}
WEAK = {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"}
MIXED = {"nom": "er e es en", "acc": "en e es en", "dat": "en en en en"}
EIN = {"nom": "- e - e", "acc": "en e - e", "dat": "em er em en"}
FIXED = {case: "- - - -" for case in CASES}
# The endings of determiners of each kind, and of the adjectives behind them.
ENDINGS = {"definite": (STRONG, WEAK), "ein": (EIN, MIXED), "fixed": (FIXED, STRONG)}
CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "zu dem": "zum", "zu der": "zur"}
PERSONS = ("1sg", "2sg", "3sg", "1pl", "3pl")
BE = {"present": "am are is are are", "past": "was were was were were"}
SEIN = {"present": "bin bist ist sind sind", "past": "war warst war waren waren"}
HABEN = "habe hast hat haben haben"
WERDEN = "werde wirst wird werden werden"
LIVING = ("person", "animal", "flyer")


@dataclass(frozen=True)
class Noun:
    """A noun; the German plural is empty if it occurs in the singular only."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str
    weak: bool
    kind: str
    adjectives: Sequence[Pair]


@dataclass(frozen=True)
class Verb:
    """A verb: English infinitive, past and participle; German infinitive, third person, preterite and participle."""

    kind: str
    english: List[str]
    german: List[str]
    subjects: List[str]
    objects: List[str]
    prefix: str = ""
    auxiliary: str = "haben"
    preposition: str = ""
    case: str = "acc"


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: English subject and object, and the German cases; `kein` has the German cases of its negation."""

    english: Pair
    german: Dict[str, str]
    agreement: str = "3sg"
    noun: Optional[Noun] = None
    pronoun: bool = False
    kein: Optional[Dict[str, str]] = None

    @property
    def column(self) -> int:
        """Return the column of the phrase in tables of inflection."""
        return 3 if self.noun is None or self.agreement == "3pl" else COLUMNS.index(self.noun.gender)


@dataclass(frozen=True)
class Clause:
    """A clause in both languages; its tense is present, past, perfect, future or one of `MODALS`."""

    subject: Phrase
    verb: Verb
    tense: str = "present"
    object: Optional[Phrase] = None
    indirect: Optional[Phrase] = None
    time: Pair = NONE
    place: Pair = NONE
    predicate: Pair = NONE
    negated: bool = False

    def english(self, question: bool = False) -> str:
        """Return the statement, or the question without its question word."""
        auxiliary, main = self._english_verb(question)
        objects = [phrase.english[1] for phrase in (self.indirect, self.object) if phrase]
        subject = (auxiliary, self.subject.english[0]) if question else (self.subject.english[0], auxiliary)
        negation = "not" if self.negated else ""
        text = join(*subject, negation, main, *objects, self.predicate[0], self.place[0], self.time[0])
        return text.replace("can not ", "cannot ")

    def german(self, order: str = "second", front: str = "") -> str:
        """Return the clause with its finite verb first, second (behind *front*, or else the subject) or last."""
        subject, (finite, end) = self.subject.german["nom"], self._german_verb()
        if order == "last":
            separable = self.tense in ("present", "past")  # then the prefix and the finite verb are one word
            return join(subject, *self._middle(), end + finite if separable else join(end, finite))
        head = [front, finite, subject] if front or order == "first" else [subject, finite]
        return join(*head, *self._middle(), end)

    def _english_verb(self, question: bool) -> Pair:
        """Return the auxiliary, which a plain statement of a simple tense has not, and the main verb."""
        base, past, participle = self.verb.english
        third = self.subject.agreement == "3sg"
        if self.tense in MODALS:
            auxiliary, _, rest = self.tense.partition(" ")
            return auxiliary, join(rest, base)
        if self.tense == "future":
            return "will", base
        if self.tense == "perfect":
            return "has" if third else "have", participle
        if base == "be":
            return BE[self.tense].split()[PERSONS.index(self.subject.agreement)], ""
        if question or self.negated:
            return "did" if self.tense == "past" else "does" if third else "do", base
        return "", past if self.tense == "past" else add_s(base) if third else base

    def _german_verb(self) -> Pair:
        """Return the finite verb, and what of the verb closes the clause."""
        agreement, person = self.subject.agreement, PERSONS.index(self.subject.agreement)
        infinitive, third, preterite, participle = self.verb.german
        if self.tense in MODALS:
            return MODALS[self.tense].split()[min(person, 3)], self.verb.prefix + infinitive
        if self.tense == "future":
            return WERDEN.split()[person], self.verb.prefix + infinitive
        if self.tense == "perfect":
            return (SEIN["present"] if self.verb.auxiliary == "sein" else HABEN).split()[person], participle
        if infinitive == "sein":
            return SEIN[self.tense].split()[person], ""
        plural = agreement in ("1pl", "3pl")
        if self.tense == "past":
            assert agreement != "2sg", "the grammar has no preterite of the second person"
            return preterite + (("n" if preterite.endswith("e") else "en") if plural else ""), self.verb.prefix
        stem = third[:-1] if third.endswith("t") else third
        second = stem + ("t" if stem.endswith(("s", "ß", "z")) else "st")
        first = infinitive[:-1] if third.endswith("t") else third
        return infinitive if plural else {"1sg": first, "2sg": second, "3sg": third}[agreement], self.verb.prefix

    def _middle(self) -> List[str]:
        """Return what stands between the finite verb and the end of the verb."""
        kein = self.object.kein if self.object and self.negated else None
        direct = (kein or self.object.german)[self.verb.case] if self.object else ""
        negation = "nicht" if self.negated and not kein else ""
        indirect = self.indirect.german["dat"] if self.indirect else ""
        rest = [negation, self.place[1], self.predicate[1]]
        if self.verb.preposition:
            return [self.time[1], negation, contract(self.verb.preposition, direct), self.place[1]]
        if self.object and self.object.pronoun:
            return [direct, indirect, self.time[1], *rest]
        return [indirect, self.time[1], direct, *rest]


def join(*words: str) -> str:
    """Return the words that are not empty, with spaces between them."""
    return " ".join(word for word in words if word)


def contract(preposition: str, phrase: str) -> str:
    """Return a prepositional phrase as German contracts it: in dem Park -> im Park."""
    article, _, rest = phrase.partition(" ")
    joined = CONTRACTIONS.get(f"{preposition} {article}") if rest else None
    return f"{joined} {rest}" if joined else f"{preposition} {phrase}"


def add_s(word: str) -> str:
    """Return the third person of a verb, which may have a particle (get up -> gets up), or a noun's regular plural."""
    head, _, particle = word.partition(" ")
    if head.endswith("y") and head[-2] not in "aeiou":
        head = head[:-1] + "ie"
    return join(head + ("es" if head.endswith(("s", "x", "ch", "sh", "go")) else "s"), particle)


def noun_phrase(noun: Noun, determiner: str = "the", adjective: Pair = NONE, plural: bool = False) -> Phrase:
    """Return a noun phrase, whose words agree; *determiner* is a key of `DETERMINERS`."""
    column = 3 if plural else COLUMNS.index(noun.gender)
    english = join(adjective[0], noun.english_plural if plural else noun.english)
    article = "an" if determiner == "a" and english[0] in "aeiou" else determiner
    german = {case: _german(noun, determiner, adjective[1], case, column) for case in CASES}
    kein = {case: _german(noun, "no", adjective[1], case, column) for case in CASES}
    text, agreement = join(article, english), "3pl" if plural else "3sg"
    return Phrase((text, text), german, agreement, noun, kein=kein if determiner in ("", "a") else None)


def _german(noun: Noun, determiner: str, adjective: str, case: str, column: int) -> str:
    stem, kind = DETERMINERS[determiner][1:3]
    endings, adjective_endings = ENDINGS[kind]
    first = THE[case].split()[column] if determiner == "the" else stem + endings[case].split()[column].strip("-")
    if adjective:  # müde -> müd, teuer -> teur, dunkel -> dunkl
        adjective = adjective[:-2] + adjective[-1] if adjective in ("teuer", "dunkel") else adjective.rstrip("e")
        adjective += adjective_endings[case].split()[column]
    name = noun.german_plural if column == 3 or (noun.weak and case != "nom") else noun.german
    if column == 3 and case == "dat" and not name.endswith(("n", "s")):
        name += "n"
    return join(first, adjective, name)


def rows(table: str, separator: str = "\n") -> List[List[str]]:
    """Return the fields of each entry of a table."""
    return [[field.strip() for field in entry.split(";")] for entry in table.strip().split(separator)]


def _read_noun(entry: str, kind: str) -> Noun:
    name, german, gender, plural = entry.split()
    english, _, irregular = name.partition("/")
    names = (english, irregular or add_s(english), german.strip("*"), plural.strip("-"))
    fitting = [(row[0], row[1]) for row in rows(lexicon.ADJECTIVES) if {kind, names[2]} & set(row[2].split())]
    return Noun(*(name.replace("_", " ") for name in names), gender, german.endswith("*"), kind, fitting)


def _read_verb(row: List[str], kind: str) -> Verb:
    words = row[1].split()
    preposition, plus, case = words[-1].partition("+")
    prefix, _, infinitive = words[0].rpartition("|")
    participle = words[-2 if plus else -1]
    auxiliary = "sein" if "ist" in words else "haben"
    governed = (preposition, case) if plus else ("", "acc")
    english = [word.replace("_", " ") for word in row[0].split()]
    german = [infinitive, words[1], words[2], participle]
    return Verb(kind, english, german, row[2].split(), row[3].split(), prefix, auxiliary, *governed)


NOUNS = [_read_noun(row[0], kind) for kind, table in lexicon.NOUNS.items() for row in rows(table, ",")]
VERBS = [_read_verb(row, kind) for kind, table in lexicon.VERBS.items() for row in rows(table)]
COPULA = Verb("copula", ["be", "was", "been"], ["sein", "ist", "war", "gewesen"], [], [])
DETERMINERS = {row[0]: row for row in rows(lexicon.DETERMINERS)}
MODALS = {row[0]: row[1] for row in rows(lexicon.MODALS)}
TENSES = ["present", "past", "perfect"] * 4 + ["future"] * 2 + list(MODALS)
KINDS = ["transitive"] * 6 + ["plain"] * 2 + ["giving"] * 2 + ["motion"]
NAMES = [Phrase((name, name), dict.fromkeys(CASES, name)) for name in lexicon.NAMES.split()]
PRONOUN_ROWS = [(row[0].split(), row[1].split(), row[2]) for row in rows(lexicon.PRONOUNS)]
PRONOUNS = [Phrase((en[0], en[1]), dict(zip(CASES, de)), who, pronoun=True) for en, de, who in PRONOUN_ROWS]


class Grammar:
    """Draws sentence pairs; the same seed gives the same pairs in every version of Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random  # the only method of `Random` that draws the same for ever
        others = [self.question, self.complex] * 4 + [self.because, self.relative]
        self.kinds: List[Callable[[], Pair]] = [self.statement] * 9 + others

    def sentence(self) -> Pair:
        """Return a sentence with a capital letter, an end mark, and spaces between its tokens, and its translation."""
        english, german = self.pick(self.kinds)()
        return english[0].upper() + english[1:], german[0].upper() + german[1:]

    def statement(self) -> Pair:
        """Draw a statement, with or without a time or an adverb in front."""
        clause, front = self.clause(), NONE
        if clause.time[0] and self.chance(0.4):
            front, clause = clause.time, replace(clause, time=NONE)
        elif self.chance(0.1):
            front = self.pick([("perhaps", "vielleicht"), ("unfortunately ,", "leider")])
        return join(front[0], clause.english(), "."), join(clause.german(front=front[1]), ".")

    def question(self) -> Pair:
        """Draw a question."""
        english, german = self.pick([NONE, NONE, ("when", "wann"), ("why", "warum")])
        clause = self.clause(adverbial=0.4 if german != "wann" else 0)
        return join(english, clause.english(question=True), "?"), join(german, clause.german("first"), "?")

    def complex(self) -> Pair:
        """Draw a main clause and a subordinate clause, in either order unless that one is the object."""
        english, german, tense, kind = self.pick(rows(lexicon.CONJUNCTIONS))
        main, clause = self.clause(tense, kind, adverbial=0), self.clause(tense, adverbial=0.2)
        english, german = join(english, clause.english()), join(german, clause.german("last"))
        if not kind and self.chance(0.4):
            return join(english, ",", main.english(), "."), join(german, ",", main.german("first"), ".")
        return join(main.english(), english, "."), join(main.german(), ",", german, ".")

    def because(self) -> Pair:
        """Draw `he buys the car because it is cheap`."""
        main, thing = self.clause_about_thing()
        english = "they" if thing.agreement == "3pl" else "it"
        pronoun = replace(thing, english=(english, ""), german={"nom": IT.split()[thing.column]})
        reason = replace(self.description(thing), subject=pronoun)
        german = join(main.german(), ", weil", reason.german("last"), ".")
        return join(main.english(), "because", reason.english(), "."), german

    def relative(self) -> Pair:
        """Draw `the book that he reads is old`."""
        clause, thing = self.clause_about_thing()
        clause = replace(clause, object=None, negated=False)
        english = join(thing.english[0], "that", clause.english())
        that = THAT[clause.verb.case].split()[thing.column]
        german = join(thing.german["nom"], ",", that, clause.german("last"), ",")
        main = replace(self.description(thing), subject=replace(thing, english=(english, ""), german={"nom": german}))
        return join(main.english(), "."), join(main.german(), ".")

    def clause(self, tense: str = "", kind: str = "", adverbial: float = 0.4) -> Clause:
        """Draw a clause; *adverbial* is the probability of a time, and that of a place."""
        wanted = kind or self.pick(KINDS)
        verb = self.pick([verb for verb in VERBS if verb.kind == wanted])
        subject, drawn = self.phrase(verb.subjects), tense or self.pick(TENSES)
        unclear = verb.english[0] == verb.english[1] and subject.agreement != "3sg"  # they put: present or past?
        if (drawn in ("present", "past") and unclear) or (drawn == "past" and subject.agreement == "2sg"):
            return self.clause(tense, kind, adverbial)
        times = [row for row in rows(lexicon.TIMES) if ("modal" if drawn in MODALS else drawn) in row[2].split()]
        placed = wanted == "motion" or (wanted == "plain" and self.chance(adverbial))
        return Clause(
            subject,
            verb,
            drawn,
            self.phrase(verb.objects, subject) if verb.objects else None,
            self.phrase(["person"], subject) if wanted == "giving" else None,
            self.pick([(row[0], row[1]) for row in times]) if self.chance(adverbial) else NONE,
            self.place(wanted == "motion") if placed else NONE,
            negated=self.chance(0.12),
        )

    def clause_about_thing(self) -> Tuple[Clause, Phrase]:
        """Draw a clause whose object is a thing that adjectives describe, and return the object, too."""
        while True:
            clause = self.clause(kind="transitive", adverbial=0)
            thing, preposition = clause.object, clause.verb.preposition
            if thing and thing.noun and thing.noun.kind not in LIVING and not preposition:
                return clause, thing

    def description(self, thing: Phrase) -> Clause:
        """Draw `the door is old`."""
        assert thing.noun is not None
        adjectives = [pair for pair in thing.noun.adjectives if pair[0] not in thing.english[0].split()]
        return Clause(thing, COPULA, self.pick(["present", "past"]), predicate=self.pick(adjectives))

    def place(self, goal: bool) -> Pair:
        """Draw the place where someone goes, or else where someone is."""
        noun = self.pick([noun for noun in NOUNS if noun.kind in ("room", "stop")])
        room = noun.kind == "room"
        phrase = noun_phrase(noun, "the", self.pick(noun.adjectives) if self.chance(0.2) else NONE)
        german = contract("in" if room else "zu" if goal else "an", phrase.german["acc" if goal and room else "dat"])
        return join("to" if goal else "in" if room else "at", phrase.english[1]), german

    def phrase(self, kinds: Sequence[str], subject: Optional[Phrase] = None) -> Phrase:
        """Draw a phrase with one of these classes of nouns, which can be the object of *subject*."""
        if "person" in kinds and self.chance(0.35):
            phrase = self.pick(NAMES if self.chance(0.3) else PRONOUNS)
            same = subject and (subject == phrase or subject.agreement[0] == phrase.agreement[0] != "3")
            return self.phrase(kinds, subject) if same else phrase
        noun = self.pick([noun for noun in NOUNS if noun.kind in kinds and not (subject and noun == subject.noun)])
        number = "plural" if noun.german_plural and self.chance(0.25) else "singular"
        number = "substance" if noun.kind == "drink" else number
        determiners = [key for key, row in DETERMINERS.items() if number in row[3]]
        determiner = "the" if self.chance(0.4) else self.pick(determiners)
        adjective = self.pick(noun.adjectives) if noun.adjectives and self.chance(0.4) else NONE
        return noun_phrase(noun, determiner, adjective, number == "plural")

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of the items."""
        return items[int(self.random() * len(items))]
