"""What is asked on a model's port, and who answers it: the supervisor itself, its control, or the model.

Promises: the port alone says which model is meant; only a POST can wake one, and only when its body is there; what
asks how a model is never touches it; every request of an answer is counted at the desk from its body to its last byte,
and a client that leaves frees what it held at once. Does not know how models come and go.
"""

import logging
import time
from collections.abc import Coroutine
from typing import Any

from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.supervisor import answers
from whitedwarf.supervisor.asgi import (
    BodyStalledError,
    BodyTooLargeError,
    ClientLeftError,
    Receive,
    Request,
    Scope,
    Send,
    read_body,
    send_answer,
    send_refusal,
)
from whitedwarf.supervisor.config import ExternalModel, Model, SupervisorConfig
from whitedwarf.supervisor.control import Control, LogOf, no_log
from whitedwarf.supervisor.control_page import PREFIX
from whitedwarf.supervisor.counting import server_key
from whitedwarf.supervisor.desk import Desk
from whitedwarf.supervisor.early import Outlet, keep_awake
from whitedwarf.supervisor.failures import UpstreamCutError
from whitedwarf.supervisor.forward import onward, pass_on, pass_on_twice
from whitedwarf.supervisor.gate import Gate
from whitedwarf.supervisor.json_spans import finished
from whitedwarf.supervisor.metrics import Metrics
from whitedwarf.supervisor.present import while_there
from whitedwarf.supervisor.status import State
from whitedwarf.supervisor.upstream import Address, Answer, Headers
from whitedwarf.supervisor.visits import Visit
from whitedwarf.supervisor.wishes import keep_alive_s, named_model, wants_stream
from whitedwarf.web.auth import ApiKeys

_log = logging.getLogger(__name__)
_HEALTH = frozenset({"/health", "/v1/health"})
_MODELS = frozenset({"/v1/models", "/models"})
_CLIENT_LEFT, _CUT = "left", "cut"


def make_app(config: SupervisorConfig, desk: Desk, keys: ApiKeys | None = None, log_of: LogOf = no_log) -> "App":
    """The application behind all ports. `log_of` gives a model's log, for people who ask."""
    return App(config, desk, keys, log_of)


class App:
    """An ASGI application; `reconfigure` gives it another config while it answers."""

    def __init__(self, config: SupervisorConfig, desk: Desk, keys: ApiKeys | None, log_of: LogOf) -> None:
        self.metrics = Metrics()
        self._desk = desk
        self._created_s = int(time.time())  # told, never compared
        self._log_of = log_of
        self.reconfigure(config, keys)

    def reconfigure(self, config: SupervisorConfig, keys: ApiKeys | None) -> None:
        """What comes from now on is answered by these."""
        self._config = config
        self._gate = Gate.of(config, keys)
        self._models = {model.public_port: model for model in config.models}
        self._names = {name for model in config.models for name in (model.key, model.alias)}
        self._control = Control(config, self._desk, self.metrics, self._log_of)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request.of(scope)
        model = self._models.get(request.port)
        try:
            if (refused := self._gate.refused(request)) is not None:
                await send_refusal(receive, send, refused)
            elif model is None:
                await send_refusal(receive, send, answers.gone_port())
            elif request.path == PREFIX.rstrip("/") or request.path.startswith(PREFIX):
                await self._control.answer(model, request, receive, send)
            else:
                await self._answer(model, request, receive, send)
        except ClientLeftError:
            self.metrics.count(model.key if model else "", _CLIENT_LEFT)
        except Exception:
            _log.exception("request_failed", extra={"path": request.path})  # the front tells nobody
            raise

    async def _answer(self, model: Model, request: Request, receive: Receive, send: Send) -> None:
        if request.method == "OPTIONS":
            await send_answer(send, answers.preflight(request.header(b"origin")))
        elif isinstance(model, ExternalModel) or request.method == "POST":
            await self._ask_model(model, request, receive, send)
        elif request.method in ("GET", "HEAD") and request.path in _HEALTH | _MODELS:
            own = answers.healthy() if request.path in _HEALTH else self._listed(model)
            await send_answer(send, own)
        else:
            await self._ask_about(model, request, receive, send)

    def _listed(self, model: Model) -> Answer:
        status = next((one for one in self._desk.status() if one.key == model.key), None)
        state = status.state if status is not None else State.UNLOADED
        size = (status.context_size if status is not None else 0) or model.context_size
        told = state if state in (State.LOADED, State.LOADING) else State.UNLOADED
        entry = {"id": model.alias, "created": self._created_s, "status": told.value, "n_ctx": size}
        return answers.models([entry])

    # Questions about a model, which do not wake it

    async def _ask_about(self, model: Model, request: Request, receive: Receive, send: Send) -> None:
        body = await self._body(request, receive, send)
        running = self._desk.peek(model.key)
        if body is None:
            return
        if running is None:
            is_loading = any(one.key == model.key and one.state == State.LOADING for one in self._desk.status())
            await send_answer(send, answers.loading() if is_loading else answers.unloaded())
            return
        outlet = Outlet(send, request.path, request.write)
        work = pass_on(running.address, request, self._onward(model, request), body, outlet)
        await while_there(receive, self._told(outlet, model, work))

    # Requests for an answer

    async def _ask_model(self, model: Model, request: Request, receive: Receive, send: Send) -> None:
        body = await self._body(request, receive, send)
        if body is None:
            return
        keep_s = None
        if not isinstance(model, ExternalModel):
            if (other := await self._other_model(model, body)) is not None:
                await send_answer(send, answers.refusal(404, other, "not_found_error"))
                return
            try:
                keep_s = await finished(keep_alive_s(body))
            except UsageError as error:
                await send_answer(send, answers.refusal(400, str(error)))
                return
        outlet = Outlet(send, request.path, request.write)
        work = self._told(outlet, model, self._visit(model, request, body, outlet, keep_s))
        await while_there(receive, work, self._awake(model, request, body, outlet))

    async def _visit(self, model: Model, request: Request, body: bytes, outlet: Outlet, keep_s: float | None) -> None:
        async with self._desk.visit(model.key, keep_alive_s=keep_s) as visit, visit.until_stopped():
            if request.method == "POST":
                over = await self._desk.limit(model.key).check(visit.running, request.target, body)
                if over is not None:
                    await outlet.give(answers.overflow(over.tokens, over.limit))
                    return
            await self._forward(model, request, body, outlet, visit)

    async def _forward(self, model: Model, request: Request, body: bytes, outlet: Outlet, visit: Visit) -> None:
        if isinstance(model, ExternalModel):
            await pass_on(visit.running.address, request, self._onward(model, request), body, outlet)
            return

        async def renewed() -> Address:
            self.metrics.count_replay(model.key)
            return (await visit.renew()).address

        await pass_on_twice(visit.running.address, request, self._onward(model, request), body, outlet, renewed)

    def _onward(self, model: Model, request: Request) -> Headers:
        """The client's headers. Where we ask for keys, its key is one of ours: nothing for the server behind."""
        has_keys = self._gate.keys is not None
        key = server_key(model) if has_keys or isinstance(model, ExternalModel) else None
        headers = onward(request.headers, key, keeps_keys=not has_keys)
        # Where headers have gone out early none of them can say how the answer is encoded.
        is_plain = request.method == "POST" and self._config.early_headers_after_s > 0
        return tuple(one for one in headers if one[0] != b"accept-encoding") if is_plain else headers

    def _awake(self, model: Model, request: Request, body: bytes, outlet: Outlet) -> Coroutine[Any, Any, None]:
        def progress() -> str:
            found = [one.loading_text for one in self._desk.status() if one.key == model.key]
            return (found[0] if found else None) or ""

        is_chat = request.path.endswith("/chat/completions")
        tells = progress if self._config.tells_loading and is_chat else None
        return keep_awake(outlet, self._config.early_headers_after_s, lambda: finished(wants_stream(body)), tells)

    async def _other_model(self, model: Model, body: bytes) -> str | None:
        """The port decides; but whoever names another of our models would take this one's answer for that one's."""
        others = self._names - {model.key, model.alias}
        named = await finished(named_model(body, others)) if others else None
        if named is None:
            return None
        ports = {one.public_port for one in self._config.models if named in (one.key, one.alias)}
        known = ", ".join(f"{one.alias} at port {one.public_port}" for one in self._config.models)
        where = " or ".join(map(str, sorted(ports)))
        return f"model {named!r} is at port {where}, this port has {model.alias!r}; there are {known}"

    # For both

    async def _body(self, request: Request, receive: Receive, send: Send) -> bytes | None:
        """None where it was refused."""
        most = self._config.max_body_bytes
        try:
            return await read_body(request, receive, most)
        except BodyTooLargeError:
            what = f"expected a request body of at most {most} bytes (maxBody), got more"
            await send_refusal(receive, send, answers.refusal(413, what))
        except BodyStalledError:
            await send_answer(send, answers.refusal(408, "the rest of the request's body did not come"))
        return None

    async def _told(self, outlet: Outlet, model: Model, work: Coroutine[Any, Any, None]) -> None:
        """The work, and what became of it: an answer, a failure that is told, or an answer that is cut off."""
        outcome = _CLIENT_LEFT
        try:
            await work
            outcome = str(outlet.status)
        except WhitedwarfError as error:
            outcome = await self._failed(outlet, error)
        except Exception as error:
            _log.exception("request_failed", extra={"model": model.key})
            outcome = await self._failed(outlet, error)
        finally:
            self.metrics.count(model.key, outcome)

    async def _failed(self, outlet: Outlet, error: Exception) -> str:
        if outlet.has_begun or isinstance(error, UpstreamCutError):
            return _CUT  # returning without an end cuts the connection
        await outlet.give(answers.failure(error))
        return str(outlet.status)
