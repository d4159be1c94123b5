"""Random noun phrases and places from the lexicon, which make sense."""

from typing import Dict, List, Optional, Sequence, Tuple

from grammar.clause import Adjunct
from grammar.dice import Dice
from grammar.german import prepositional_phrase
from grammar.lexicon import ADJECTIVES_OF, DETERMINER_OF, NOUNS, PLACES, Adjective, Determiner, Noun, rows
from grammar.lexicon_adverbials import NAMES, NUMBERS, PRONOUNS, TOWNS, TWO_WAY
from grammar.noun_phrase import NounPhrase, Phrase, join

POSSESSIVES = ("my", "your", "his", "her", "our", "their")
PEOPLE = ("adult", "kid", "elder", "relative")
KIN = ("elder", "relative")
OWNED = ("thing", "container", "clothing", "vehicle", "animal", "text", "idea")
# These are drawn again once before a noun, because they are more usual as predicates (the man is hungry).
FEELINGS = ("tired", "hungry", "thirsty", "angry", "sad", "happy")
COMPANIONS = ("dog", "cat", "horse")


def _read_pronouns() -> List[Phrase]:
    phrases = []
    for english, german, agreement, gender, possessive in rows(PRONOUNS):
        subject, oblique = english.split()
        nom, acc, dat = german.split()
        phrases.append(Phrase((subject, oblique, nom, acc, dat), agreement, gender, possessive, is_pronoun=True))
    return phrases


def _name(name: str, gender: str) -> Phrase:
    return Phrase((name, name, name, name, name), "3sg", gender, "his" if gender == "m" else "her")


PRONOUN_PHRASES = _read_pronouns()
NAME_PHRASES = [_name(name, gender) for gender, names in NAMES.items() for name in names.split()]
GENITIVE_NAMES = tuple(f"{phrase.english()} 's" for phrase in NAME_PHRASES)
DETERMINER_OF.update(
    {name: Determiner(name, name.replace(" '", ""), "fixed") for name in GENITIVE_NAMES}  # Anna 's -> Annas
)
TOWN_PAIRS = [tuple(entry.split()) for entry in TOWNS.split("|")]


class PhraseSampler:
    """Draws phrases; all choices come from one source of random numbers."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def subject(self, members: Sequence[str]) -> Phrase:
        """Return a subject from the nouns that a verb takes, which may include `name` and `pronoun`."""
        nouns = [NOUNS[member] for member in members if member in NOUNS]
        if "pronoun" in members:
            kind = self.dice.weighted({"pronoun": 0.17, "name": 0.13, "pair": 0.03, "noun": 0.67})
            if kind != "noun":
                return self._pronoun_or_name(kind)
        return self.noun_phrase(self.dice.pick(nouns), subject=True)

    def indefinite(self, members: Sequence[str]) -> NounPhrase:
        """Return an indefinite phrase: a dog, two sisters, time."""
        noun = NOUNS[self.dice.pick(members)]
        plural = bool(noun.german_plural) and self.dice.chance(0.35)
        determiner = "" if noun.is_mass else self.dice.pick((*NUMBERS, "many")) if plural else "a"
        adjective = self.adjective(noun) if self.dice.chance(0.3) else None
        return NounPhrase.build(noun, determiner, plural, adjective)

    def object(self, members: Sequence[str], subject: Phrase, single: bool, pronoun: bool) -> Phrase:
        """Return an object; with `single` it is no plural, and with `pronoun` it may be a pronoun."""
        nouns = [NOUNS[member] for member in members if member in NOUNS]
        if "name" in members and self.dice.chance(0.3):
            kind = "pronoun" if pronoun and self.dice.chance(0.5) else "name"
            phrase = self._pronoun_or_name(kind)
            return phrase if phrase.possessive != subject.possessive else self.name(other_than=subject)
        own = subject.noun if isinstance(subject, NounPhrase) else None
        noun = self.dice.pick([noun for noun in nouns if noun is not own] or nouns)
        return self.noun_phrase(noun, owner=subject, single=single)

    def name(self, other_than: Optional[Phrase] = None) -> Phrase:
        """Return a proper name; its gender differs from that of *other_than*, if that has one."""
        gender = other_than.gender if other_than else ""
        return self.dice.pick([phrase for phrase in NAME_PHRASES if phrase.gender != gender])

    def noun_phrase(self, noun: Noun, subject: bool = False, owner: Optional[Phrase] = None,
                    single: bool = False) -> NounPhrase:  # fmt: skip
        """The noun with a determiner, often an adjective, sometimes an attribute."""
        plural = bool(noun.german_plural) and not single and self.dice.chance(0.2)
        determiner = self._determiner(noun, plural, owner, subject)
        adjective, superlative = None, False
        if self.dice.chance(0.27):
            adjective = self.adjective(noun)
            if adjective and adjective.english[0] in FEELINGS:
                adjective = self.adjective(noun)
            superlative = bool(adjective) and determiner == "the" and self.dice.chance(0.12)
        if adjective and superlative and not adjective.gradable:
            superlative = False
        phrase = NounPhrase.build(noun, determiner, plural, adjective, superlative)
        if determiner == "the" and not superlative and (noun.kind == "relative" or self.dice.chance(0.08)):
            return self._with_attribute(phrase)
        return phrase

    def plain(self, noun: Noun, determiner: str = "the") -> NounPhrase:
        """Return a determiner and a singular noun, sometimes with an adjective."""
        adjective = self.adjective(noun) if self.dice.chance(0.25) else None
        return NounPhrase.build(noun, determiner, False, adjective)

    def adjective(self, noun: Noun, gradable: bool = False) -> Optional[Adjective]:
        """Return an adjective that goes with the noun, if there is one."""
        fitting = [adjective for adjective in ADJECTIVES_OF[noun.english] if adjective.gradable or not gradable]
        return self.dice.pick(fitting) if fitting else None

    def place(self, members: Sequence[str] = ()) -> Adjunct:
        """Return the place of an event: in the garden, im Garten."""
        fitting = [entry for entry in PLACES if not members or entry[0] in members]
        name, english, german, _ = self.dice.pick(fitting)
        phrase = self.plain(NOUNS[name], self._place_determiner(name))
        return Adjunct(f"{english} {phrase.english()}", prepositional_phrase(german, phrase.german("dat")))

    def direction(self) -> Adjunct:
        """Return the goal of a motion: to the city, in die Stadt."""
        name, _, _, german = self.dice.pick([entry for entry in PLACES if entry[3] != "-"])
        phrase = self.plain(NOUNS[name])
        case = "dat" if german == "zu" else "acc"
        return Adjunct(f"to {phrase.english()}", prepositional_phrase(german, phrase.german(case)))

    def town(self, english: str, german: str) -> Adjunct:
        """Return a town or country after a preposition."""
        names = self.dice.pick(TOWN_PAIRS)
        return Adjunct(f"{english} {names[0]}", f"{german} {names[1]}")

    def beside(self, noun: Noun, standing: bool, case: str) -> Adjunct:
        """Return the place where the noun stands or lies: under the table, unter dem Tisch or unter den Tisch."""
        still_life = noun.kind not in ("adult", "kid", "elder", "relative", "animal", "vehicle")
        table = [row for row in rows(TWO_WAY) if still_life or row[0] not in ("in", "under", "on")]
        if not standing and not still_life:
            table.append(["on", "auf", "chair bed sofa", ""])
        english, german, lying_by, standing_by = self.dice.pick(table)
        names = [name for name in (standing_by if standing else lying_by).split() if name != noun.english]
        phrase = self.plain(NOUNS[self.dice.pick(names)])
        return Adjunct(f"{english} {phrase.english()}", prepositional_phrase(german, phrase.german(case)))

    def companion(self, english: str, german: str, case: str, subject: Phrase) -> Adjunct:
        """Return a person after a preposition: with my brother, for his wife."""
        members = [name for name, noun in NOUNS.items() if noun.kind in KIN] + ["name", "child", "boy", "girl"]
        phrase = self.object(members, subject, single=True, pronoun=True)
        return Adjunct(f"{english} {phrase.english('acc')}", f"{german} {phrase.german(case)}")

    def _pronoun_or_name(self, kind: str) -> Phrase:
        if kind == "pronoun":
            return self.dice.pick(PRONOUN_PHRASES)
        first = self.dice.pick(NAME_PHRASES)
        if kind == "name":
            return first
        return join(first, self.name(other_than=first))

    def _determiner(self, noun: Noun, plural: bool, owner: Optional[Phrase], subject: bool) -> str:
        dice = self.dice
        if noun.is_mass:
            return "the" if noun.kind in ("food", "drink") and dice.chance(0.3) else ""
        if noun.kind in KIN:
            if noun.kind == "relative" and dice.chance(0.15):
                return "the"
            own = owner.possessive if owner and owner.possessive and dice.chance(0.6) else ""
            return own or dice.pick(POSSESSIVES + GENITIVE_NAMES[::4])
        if plural:
            kinds = {"the": 3.5, "these": 1.0, "many": 1.0, "some": 0.8, "": 0.6, "all": 0.3, "number": 1.6}
            name = dice.weighted(kinds)
            return dice.pick(NUMBERS) if name == "number" else name
        owned = noun.kind in OWNED and (noun.kind != "animal" or noun.english in COMPANIONS)
        if owned and dice.chance(0.3):
            own = owner.possessive if owner else dice.pick(POSSESSIVES + GENITIVE_NAMES)
            return own or "the"
        return dice.weighted(
            {
                "the": 6.0,
                "a": 1.0 if subject else 2.6,
                "this": 0.8,
                "every": 0.3 if subject and noun.german_plural else 0.0,
            }
        )

    def _place_determiner(self, name: str) -> str:
        private = name in ("house", "garden", "kitchen", "room", "office")
        if private and self.dice.chance(0.2):
            return self.dice.pick(POSSESSIVES)
        return "a" if self.dice.chance(0.06) else "the"

    def _with_attribute(self, phrase: NounPhrase) -> NounPhrase:
        """Return the phrase with `of the teacher`, `of the house` or `with the red hat` where that makes sense."""
        noun = phrase.noun
        assert noun is not None
        if noun.kind in ("adult", "kid"):
            wear = self.plain(
                NOUNS[self.dice.pick(("hat", "coat", "shirt", "scarf", "bag", "box", "suitcase", "basket"))]
            )
            return phrase.with_attribute(f"with {wear.english()}", f"mit {wear.german('dat')}")
        holders: Dict[str, Tuple[str, ...]] = {
            "relative": ("adult", "kid"), "text": ("adult",), "idea": ("adult", "kid"), "rooms": ("building",),
            "clothing": ("adult", "kid"), "vehicle": ("adult",), "thing": ("kid",),
        }  # fmt: skip
        if noun.kind not in holders:
            return phrase
        holder = self.plain(self._noun_of(holders[noun.kind]), "the")
        return phrase.with_attribute(f"of {holder.english()}", holder.german("gen"))

    def _noun_of(self, kinds: Sequence[str]) -> Noun:
        return self.dice.pick([noun for noun in NOUNS.values() if noun.kind in kinds])
