"""Sentences of two clauses.  Each method draws one kind of sentence, or returns None if the draw does not fit."""

from dataclasses import replace
from typing import Optional, Tuple

from grammar.clause import Clause
from grammar.clause_sampler import ACTIONS, PERSONS, ClauseSampler, is_person
from grammar.german import RELATIVE_PRONOUN, column
from grammar.lexicon import NOUNS, VERBS, Verb
from grammar.noun_phrase import NounPhrase, Phrase
from grammar.simple_sentences import WEATHER_ROWS

Pair = Optional[Tuple[str, str]]
STATES = ("tired", "hungry", "thirsty", "sick", "sad", "happy", "angry")
# These are the first words of the English verbs that name the purpose of a motion.
PURPOSES = (
    *("buy", "sell", "visit", "meet", "help", "look", "fetch", "pick", "see", "learn", "bring", "repair"),
    *("photograph", "drink", "eat", "wake", "find", "return", "lend", "give", "show"),
)
# A part of a sentence, in English and in German.
Part = Tuple[str, str]
EVENTS = [verb for verb in VERBS["intransitive"] if verb.german.prefix and verb.english.base not in ("watch", "run")]
ACTIVITIES = [verb for verb in VERBS["intransitive"] if "place" in verb.extras]
HAVE = next(verb for verb in VERBS["transitive"] if verb.english.base == "have")


class ComplexSentences:
    """Main clauses with subordinate, relative, coordinate or infinitive clauses."""

    def __init__(self, clauses: ClauseSampler) -> None:
        self.clauses = clauses
        self.dice = clauses.dice

    def reason(self) -> Pair:
        """Draw a sentence such as `The man is sleeping because he is tired`."""
        conjunction = self.dice.pick((("because", "weil"), ("although", "obwohl")))
        return self._with_circumstance(conjunction, self.dice.pick(("present", "past")))

    def condition(self) -> Pair:
        """Draw a sentence such as `If it is cold, the children stay at home`."""
        return self._with_circumstance(("if", "wenn"), self.dice.pick(("present", "future")))

    def event(self) -> Pair:
        """Draw a sentence such as `When the train arrived, the child cried`."""
        event = self._drawn(EVENTS, "past", 0.0)
        english, german = self.dice.pick((("when", "als"), ("before", "bevor"), ("until", "bis")))
        if english == "until":
            main = self._drawn(ACTIVITIES, "past", 0.5)
        else:
            main = self.clauses.clause("past", patterns=ACTIONS, adverbials=0.5)
        if event.negated or main.negated or main.time or main.adverb or main.verb.english.stative:
            return None
        return self._subordinate((english, german), main, event, first=english == "when" and self.dice.chance(0.5))

    def meanwhile(self) -> Pair:
        """Draw a sentence such as `While the mother is cooking, the children are playing in the garden`."""
        pair = [replace(self._drawn(ACTIVITIES, "present", 0.6), time=None, progressive=True) for _ in range(2)]
        main, other = pair
        if main.verb is other.verb or any(clause.negated or clause.adverb for clause in pair):
            return None
        return self._subordinate(("while", "während"), main, other, first=self.dice.chance(0.5))

    def report(self) -> Pair:
        """Draw a sentence such as `Anna knows that the boy has lost the key` or `Peter asks whether it is cold`."""
        asks = self.dice.chance(0.2)
        verb = self.dice.pick(VERBS["whether" if asks else "that"])
        who = self.clauses.phrases.subject(verb.subjects)
        tense = "past" if self.dice.chance(0.25) and who.agreement != "2sg" else "present"
        main = Clause(who, verb, tense, negated=not asks and who.is_definite and self.dice.chance(0.1))
        about = self.clauses.reference(who) if self.dice.chance(0.3) and not asks else None
        if tense == "past" and about is not None and about.agreement == "2sg":
            return None
        inner_tense = tense if tense == "past" else ""
        if self.dice.chance(0.25):
            inner = self.clauses.copula(inner_tense, about, STATES if about else ())
        else:
            inner = self.clauses.clause(inner_tense, about, adverbials=0.6)
        english, german = ("whether", "ob") if asks else ("that", "dass")
        return (f"{main.english()} {english} {inner.english()} .",
                f"{main.german_statement()} , {inner.german_subordinate(german)} .")  # fmt: skip

    def relative_subject(self) -> Pair:
        """Draw a sentence such as `The man who lives in the village is reading a book`."""
        main = self.clauses.clause(adverbials=0.3) if self.dice.chance(0.6) else self.clauses.copula()
        head = main.subject
        if not isinstance(head, NounPhrase) or head.attribute[0] or head.determiner in ("every", ""):
            return None
        inner = self.clauses.clause(self.dice.pick(("present", "past", "perfect")), head, adverbials=0.4)
        if inner.negated or inner.verb is main.verb:
            return None
        english, german = _relative_pronouns(head, "nom")
        inner = replace(inner, subject=Phrase((english,) * 5, head.agreement, head.gender))
        attribute = (inner.english(), f", {inner.german_subordinate(german, with_subject=False)} ,")
        main = replace(main, subject=head.with_attribute(*attribute))
        return f"{main.english()} .", f"{main.german_statement()} ."

    def relative_object(self) -> Pair:
        """Draw a sentence such as `The book that the woman bought is interesting`."""
        inner = self.clauses.clause(patterns={"transitive": 4, "dative": 1}, adverbials=0.3)
        head = inner.object
        if not isinstance(head, NounPhrase) or head.noun is None or head.noun.is_mass or inner.negated:
            return None
        if head.noun.kind in ("elder", "relative") or not inner.subject.is_definite:
            return None
        english, german = _relative_pronouns(head, inner.object_case)
        gap = inner.without_object()
        attribute = (f"{english} {gap.english()}", f", {gap.german_subordinate(german)} ,")
        head = NounPhrase.build(head.noun, "the", head.plural, head.adjective)
        if self.dice.chance(0.5):
            main = self.clauses.copula("", replace(head, adjective=None).with_attribute(*attribute))
            return f"{main.english()} .", f"{main.german_statement()} ."
        return self._extraposed(head, attribute, inner.verb)

    def coordination(self) -> Pair:
        """Draw a sentence such as `The father is cooking, but the children are not hungry`."""
        english, german = self.dice.weighted({("and", "und"): 2.0, (", but", ", aber"): 1.0})
        tense = self.dice.pick(("present", "past", "perfect", "future"))
        left, right = (self.clauses.clause(tense, patterns=ACTIONS, adverbials=0.35) for _ in range(2))
        if left.verb is right.verb or left.subject.english() == right.subject.english():
            return None
        if not is_person(left.subject) or not is_person(right.subject):
            return None
        return (f"{left.english()} {english} {right.english()} .",
                f"{left.german_statement()} {german} {right.german_statement()} .")  # fmt: skip

    def infinitive(self) -> Pair:
        """Draw a sentence such as `The boy is trying to open the door`."""
        verb = self.dice.pick(VERBS["infinitive"])
        who = self.clauses.phrases.subject(verb.subjects)
        tense = "past" if self.dice.chance(0.4) and who.agreement != "2sg" else "present"
        inner = self.clauses.clause("present", who, patterns=ACTIONS, adverbials=0.4)
        if inner.verb.english.stative or inner.negated or inner.adverb or inner.verb.german.base == verb.german.base:
            return None
        main = Clause(who, verb, tense, progressive=tense == "present" and not verb.english.stative)
        german = inner.german_infinitive()
        comma = "" if german == inner.verb.german.zu_infinitive else ","
        return (f"{main.english()} {inner.english_infinitive()} .",
                f"{main.german_statement()} {comma} {german} .".replace("  ", " "))  # fmt: skip

    def purpose(self) -> Pair:
        """Draw a sentence such as `Maria is going to the market in order to buy apples`."""
        main = self.clauses.clause(patterns={"motion": 3, "travel": 1}, adverbials=0.3)
        inner = self.clauses.clause("present", main.subject, {"transitive": 3, "dative": 1, "ditransitive": 1}, 0.0)
        if inner.verb.english.base not in PURPOSES or inner.negated or main.negated or main.time:
            return None
        return (f"{main.english()} in order {inner.english_infinitive()} .",
                f"{main.german_statement()} , um {inner.german_infinitive()} .")  # fmt: skip

    def _with_circumstance(self, conjunction: Part, tense: str) -> Pair:
        """Return a main clause with the weather or somebody's state as its reason or condition."""
        first = self.dice.chance(0.4)
        state_tense = "past" if tense == "past" else "present"
        who: Optional[Phrase] = self.clauses.phrases.subject(PERSONS)
        reference = self.clauses.reference(who) if who else None
        if who is None or reference is None or (tense == "past" and who.agreement == "2sg"):
            return None
        # The first mention of a person is the full phrase, and the second one is a pronoun.
        about_state, about_main = (who, reference) if first else (reference, who)
        main = self.clauses.clause(tense, about_main, ACTIONS, adverbials=0.5)
        if main.verb.english.stative or main.adverb or main.time or main.negated:
            return None
        if conjunction[0] == "if":
            if main.verb.english.ambiguous_past and who.agreement != "3sg":
                return None
            main = replace(main, progressive=False)
        kind = self.dice.weighted({"weather": 3.0, "state": 5.0, "lack": 1.5})
        if kind == "weather":
            english, german, _ = self.dice.pick([row for row in WEATHER_ROWS if row[2] == state_tense])
            verb_final = " ".join(reversed(german.split()))
            words = (f"{conjunction[0]} it {english}", f"{conjunction[1]} es {verb_final}")
            return self._arranged(words, replace(main, subject=who), first)
        if kind == "lack":
            if state_tense == "past" and who.agreement == "2sg":
                return None
            lacking = NounPhrase.build(NOUNS["time"], "")
            state = Clause(about_state, HAVE, state_tense, object=lacking, negated=conjunction[0] != "although")
        else:
            state = self.clauses.copula(state_tense, about_state, STATES)
        return self._subordinate(conjunction, main, state, first)

    def _drawn(self, verbs: "list[Verb]", tense: str, adverbials: float) -> Clause:
        """Return a clause with one of the verbs."""
        while True:
            clause = self.clauses.clause(tense, patterns={"intransitive": 1}, adverbials=adverbials)
            if clause.verb in verbs and clause.subject.is_definite:
                return clause

    def _subordinate(self, conjunction: Part, main: Clause, other: Clause, first: bool) -> Pair:
        words = (f"{conjunction[0]} {other.english()}", other.german_subordinate(conjunction[1]))
        return self._arranged(words, main, first)

    def _arranged(self, subordinate: Part, main: Clause, first: bool) -> Pair:
        """Return both clauses; where the subordinate one comes first, the German main clause begins with its verb."""
        if first:
            return (f"{subordinate[0]} , {main.english()} .", f"{subordinate[1]} , {main.german_question()} .")
        return (f"{main.english()} {subordinate[0]} .", f"{main.german_statement()} , {subordinate[1]} .")

    def _extraposed(self, head: NounPhrase, attribute: Part, used: Verb) -> Pair:
        """Return a sentence that ends in the relative clause, whose noun is the object of another verb."""
        assert head.noun is not None
        fitting = [verb for verb in VERBS["transitive"] if head.noun.english in verb.objects and verb is not used]
        if not fitting:
            return None
        verb = self.dice.pick(fitting)
        main = self.clauses.with_verb(verb, adverbials=0.0)
        if main.negated or (head.plural and "one" in verb.extras):
            return None
        main = replace(main, object=head)
        return f"{main.english()} {attribute[0]} .", f"{main.german_statement()} {attribute[1]} ."


def _relative_pronouns(head: NounPhrase, case: str) -> Part:
    """Return the English and the German relative pronoun for a noun."""
    assert head.noun is not None
    english = ("who" if case == "nom" else "whom") if is_person(head) else "that"
    return english, RELATIVE_PRONOUN[case][column(head.noun.gender, head.plural)]
