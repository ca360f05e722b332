"""`/steer` in a session: the same weights under another steering, and everything read again with the next answer.

Promises: what cannot be done changes nothing. States that were made before are never used afterwards, neither those in
memory nor those on disk.
"""

from collections.abc import Callable

from whitedwarf.agent.session_facts import SteeringFacts
from whitedwarf.agent.sessions import Sessions
from whitedwarf.engine.engine import Engine
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.model.steering_wish import SteeringWish, asked_steering


class SteeringSwitch:
    """A `Steer` (commands.py); called on the agent's thread, between two turns."""

    def __init__(
        self,
        model: DeepSeek,
        engine: Engine,
        sessions: Sessions,
        wish: SteeringWish | None = None,
        note: Callable[[str], object] = lambda text: None,
    ) -> None:
        """`wish`: the steering that `model` is under; `note` is told what the user should know of a file."""
        self._model, self._engine, self._sessions = model, engine, sessions
        self._wish = wish
        self._note = note
        sessions.steering = _facts(wish, model)

    def __call__(self, argument: str) -> str:
        """What is set after `/steer argument`. UsageError, FileFormatError."""
        wish = asked_steering(argument, self._wish)
        if argument.strip():
            self._change(wish)
        return str(self._wish or "off")

    def _change(self, wish: SteeringWish | None) -> None:
        config = self._model.config
        model = self._model.steered(None if wish is None else wish.steering(config, self._note))
        self._sessions.check_idle()
        if _digest(model) == _digest(self._model):
            return
        self._engine.change_model(model)
        self._sessions.change_model(model, _facts(wish, model))
        self._model, self._wish = model, wish


def _digest(model: DeepSeek) -> str:
    return "" if model.steering is None else model.steering.digest


def _facts(wish: SteeringWish | None, model: DeepSeek) -> SteeringFacts | None:
    if wish is None or model.steering is None:
        return None
    return SteeringFacts(str(wish.file), wish.ffn, wish.attention, model.steering.digest)
