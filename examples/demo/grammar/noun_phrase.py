"""Noun phrases, which have a form for each case of both languages."""

from dataclasses import dataclass, replace
from typing import Optional, Tuple

from grammar.english import article
from grammar.german import adjective_ending, adjective_stem, determiner
from grammar.lexicon import DETERMINER_OF, Adjective, Noun

THIRD_PERSON = {"m": "he", "f": "she"}
POSSESSIVE = {"m": "his", "f": "her", "": "their"}


@dataclass(frozen=True)
class Phrase:
    """A pronoun or a name, whose forms are fixed.

    `forms` are the English nominative and oblique case, and the German nominative, accusative and dative.
    """

    forms: Tuple[str, str, str, str, str]
    agreement: str = "3sg"
    gender: str = ""
    possessive: str = ""
    is_pronoun: bool = False
    is_definite: bool = True

    def english(self, case: str = "nom") -> str:
        """Return the English form."""
        return self.forms[0 if case == "nom" else 1]

    def german(self, case: str) -> str:
        """Return the German form."""
        return self.forms[2 + ("nom", "acc", "dat").index(case)]


@dataclass(frozen=True)
class NounPhrase(Phrase):
    """A phrase of determiner, adjective, noun and a following attribute, which agree with each other."""

    forms: Tuple[str, str, str, str, str] = ("", "", "", "", "")
    noun: Optional[Noun] = None
    determiner: str = "the"
    adjective: Optional[Adjective] = None
    superlative: bool = False
    plural: bool = False
    attribute: Tuple[str, str] = ("", "")
    negated: bool = False

    @staticmethod
    def build(noun: Noun, determiner_name: str, plural: bool = False, adjective: Optional[Adjective] = None,
              superlative: bool = False) -> "NounPhrase":  # fmt: skip
        """Return a noun phrase, with the agreement that follows from noun and number."""
        gender = "" if plural else noun.gender
        return NounPhrase(
            agreement="3pl" if plural else "3sg",
            gender=gender,
            possessive=POSSESSIVE.get(gender, ""),
            is_definite=determiner_name not in ("", "a", "many", "some")
            and DETERMINER_OF[determiner_name].kind != "fixed",
            noun=noun,
            determiner=determiner_name,
            adjective=adjective,
            superlative=superlative,
            plural=plural,
        )

    def english(self, case: str = "nom") -> str:
        """Return the English form, which is the same in every case."""
        assert self.noun is not None
        words = [self.adjective.english[2 if self.superlative else 0]] if self.adjective else []
        words.append((self.noun.english_plural if self.plural else self.noun.english).replace("_", " "))
        first = article(words[0]) if self.determiner == "a" else self.determiner
        return " ".join(word for word in (first, *words, self.attribute[0]) if word)

    def german(self, case: str) -> str:
        """Return the German form of a case."""
        assert self.noun is not None
        gender, words, kind = self.noun.gender, [], ""
        if self.negated:
            kind = "ein"
            words.append(determiner("kein", kind, case, gender, self.plural))
        elif self.determiner:
            entry = DETERMINER_OF[self.determiner]
            kind = entry.kind
            words.append(determiner(entry.stem, kind, case, gender, self.plural))
        if self.adjective:
            form = self.adjective.german[2] if self.superlative else adjective_stem(self.adjective.german[0])
            words.append(form + adjective_ending(kind, case, gender, self.plural))
        words.append(self.noun.german(case, self.plural))
        return " ".join(word for word in (*words, self.attribute[1]) if word)

    def with_attribute(self, english: str, german: str) -> "NounPhrase":
        """Return the phrase with an attribute behind the noun, such as `of the boy` or a relative clause."""
        return replace(self, attribute=(english, german))

    def with_kein(self) -> "NounPhrase":
        """Return the phrase as German negates it, with `kein` in place of the indefinite article or of none."""
        return replace(self, negated=True)


def join(left: Phrase, right: Phrase) -> Phrase:
    """Return the plural phrase `left and right`."""
    forms = [f"{left.english(case)} and {right.english(case)}" for case in ("nom", "acc")]
    forms += [f"{left.german(case)} und {right.german(case)}" for case in ("nom", "acc", "dat")]
    return Phrase((forms[0], forms[1], forms[2], forms[3], forms[4]), "3pl", "", "their")


def determiner_of(phrase: Phrase) -> str:
    """Return the English determiner of a phrase; names and pronouns have an empty one."""
    return phrase.determiner if isinstance(phrase, NounPhrase) else ""
