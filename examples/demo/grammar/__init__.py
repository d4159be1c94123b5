"""The grammar, which lists the kinds of sentences and how often each of them is drawn."""

from typing import Callable, Dict, Optional, Tuple

from grammar.clause_sampler import ClauseSampler, NoFittingWordError
from grammar.complex_sentences import ComplexSentences
from grammar.dice import Dice
from grammar.questions import Questions
from grammar.simple_sentences import SimpleSentences


class Grammar:
    """Draws sentence pairs; all choices come from one source of random numbers."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        clauses = ClauseSampler(dice)
        simple, questions, two = SimpleSentences(clauses), Questions(clauses), ComplexSentences(clauses)
        self.kinds: Dict[Callable[[], Optional[Tuple[str, str]]], float] = {
            simple.statement: 50, simple.fronted: 12, simple.description: 4, simple.comparison: 3,
            simple.introduction: 1.5, simple.existence: 2.5, simple.weather: 0.2,
            questions.yes_no: 10, questions.subject: 3, questions.object: 3, questions.which: 2.5,
            questions.adverbial: 4, questions.measure: 0.5,
            two.reason: 6, two.condition: 3, two.event: 3, two.meanwhile: 1, two.report: 5,
            two.relative_subject: 3, two.relative_object: 3, two.coordination: 2, two.infinitive: 3, two.purpose: 2,
        }  # fmt: skip

    def sentence(self) -> Tuple[str, str]:
        """Return a random pair of an English sentence and its German translation.

        A sentence has a capital letter, an end mark, and spaces between its tokens.
        """
        kind = self.dice.weighted(self.kinds)
        while True:
            try:
                pair = kind()
            except NoFittingWordError:
                continue
            if pair is not None:
                return finish(pair[0]), finish(pair[1])


def finish(text: str) -> str:
    """Return *text* with a capital letter, and without a comma that another punctuation mark follows."""
    for end in (".", "?", ","):
        text = text.replace(f" , {end}", f" {end}")
    return text[0].upper() + text[1:]
