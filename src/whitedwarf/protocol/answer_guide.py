"""What steers an answer in all: its form, and its calls. Promises: of `Guide`. Who asks for nothing gets no guide."""

from collections.abc import Sequence
from typing import Any

from whitedwarf.engine.guide import Course, Guide, Mask
from whitedwarf.prompt.grammar import Grammar
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.call_guide import CallGuide, call_guide
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.form_guide import FormGuide, form_guide
from whitedwarf.protocol.offered_calls import OfferedCalls


class CallsOfForm:
    """Both at once: the form says what may come, the calls how it is drawn; either may end the answer."""

    def __init__(self, calls: CallGuide, form: FormGuide) -> None:
        self._calls = calls
        self._form = form

    @property
    def course(self) -> Course:
        """As the calls have it."""
        return self._calls.course

    def mask(self) -> Mask | None:
        """As the form has it."""
        return self._form.mask()

    def forced(self) -> Sequence[int]:
        """As the form has it."""
        return self._form.forced()

    def accept(self, token: int) -> Course:
        """This token was drawn."""
        course, formed = self._calls.accept(token), self._form.accept(token)
        return formed if formed.is_over else course


def answer_guide(
    converted: Converted[Any], tokenizer: Tokenizer, form: Grammar | None, offered: Grammar | None = None
) -> Guide | None:
    """The guide of the answer to this request, which has to be of this form, or whose calls have to be of `offered`."""
    calls = call_guide(converted, tokenizer)
    if form is not None:
        held = form_guide(converted, tokenizer, form)
        return held if calls is None else CallsOfForm(calls, held)
    if offered is not None:
        return OfferedCalls(calls or CallGuide(tokenizer, converted.parsing), offered, tokenizer)
    return calls
