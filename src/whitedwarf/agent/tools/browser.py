"""The user's Chrome or Chromium, with a profile of its own: started when a page is first wanted, ended by `close`.

Promises: each page is opened in a tab of its own, in the background, and closed again; what is shown is what a person
would see after scripts have run and the page was scrolled. Visible where there is a screen. The port on which it is
spoken to is chosen by the browser and listens on this computer alone.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException

from whitedwarf.agent.tool import Running, ToolError
from whitedwarf.agent.tools.child_environment import child_environment
from whitedwarf.agent.tools.devtools import DevTools
from whitedwarf.agent.tools.process_tree import signal_group

TIME_LIMIT_S = 60.0
MOST_HTML_CHARS = 4 << 20
PROFILE = Path(".whitedwarf") / "browser"  # in the home
_START_S = 30.0
_LOAD_S = 20.0
_LOOK_S = 0.1
_CALM_S = 1.0
_SCROLLS = 12
_NAMES = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chrome")
_MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
_AWAKE = (  # our tabs are never in front
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)
_SCROLL = """new Promise(done => {
  const before = scrollY;
  scrollBy(0, innerHeight * 2);
  const told = () => done(scrollY > before);
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(told, 50)));  // its events have been heard by then
  setTimeout(told, 1000);
})"""
_CONSENTS = (
    "accept all|i agree|reject all|alle akzeptieren|alle ablehnen|ich stimme zu|tout accepter|tout refuser",
    "aceptar todo|rechazar todo|accetta tutto|rifiuta tutto|aceitar tudo|alles accepteren|zaakceptuj wszystko",
    "すべて同意|全部接受|принять все",
)
_CONSENT = """(() => {
  const words = /^(WORDS)$/i;
  for (const button of document.querySelectorAll('button, [role=button], input[type=submit]'))
    if (words.test((button.innerText || button.value || '').trim())) { button.click(); return true; }
  return false; })()""".replace("WORDS", "|".join(_CONSENTS))


@dataclass(frozen=True, slots=True)
class Seen:
    """A page as the browser has it."""

    url: str
    html: str
    is_cut: bool


def find_browser() -> Path | None:
    """Where a Chrome or Chromium is; none is usual on servers."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None and sys.platform == "darwin" and _MAC.exists():
        return _MAC
    return Path(found) if found else None


class Browser:
    """See the module. `profile` is a folder that only this browser uses."""

    def __init__(self, program: Path, profile: Path) -> None:
        self.program = program
        self._profile = profile
        self._process: subprocess.Popen[bytes] | None = None
        self._tools: DevTools | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def see(self, url: str, running: Running, time_limit_s: float = TIME_LIMIT_S, is_consenting: bool = False) -> Seen:
        """Open a page, wait until it is calm, scroll it, and take what it holds. ToolError where that fails."""
        deadline = time.monotonic() + time_limit_s
        tools = self._connected(running)
        try:
            target = tools.call("Target.createTarget", {"url": "about:blank", "background": True}, running, deadline)
            target_id = target["targetId"]
            try:
                attached = tools.call(
                    "Target.attachToTarget", {"targetId": target_id, "flatten": True}, running, deadline
                )
                return _Tab(tools, attached["sessionId"], running, deadline).see(url, is_consenting)
            finally:
                with contextlib.suppress(ToolError):
                    tools.call("Target.closeTarget", {"targetId": target_id}, Running(), time.monotonic() + 5)
        except ToolError:
            if not self.is_running:
                self.close()
            raise

    def close(self) -> None:
        """End it; more than once is well."""
        if self._tools is not None:
            with contextlib.suppress(ToolError):
                self._tools.call("Browser.close", {}, Running(), time.monotonic() + 3)
            self._tools.close()
            self._tools = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(3)
            signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _connected(self, running: Running) -> DevTools:
        if self._tools is not None and self.is_running:
            return self._tools
        self.close()
        self._start()
        end = time.monotonic() + _START_S
        while self._tools is None:
            if running.interrupted.is_set() or time.monotonic() > end or not self.is_running:
                self.close()
                raise ToolError(f"{self.program.name} does not start; is it used with this profile already? Use fetch")
            time.sleep(_LOOK_S)
            with contextlib.suppress(OSError, WebSocketException, ValueError):
                port, path = self._port_file.read_text().split()
                self._tools = DevTools(f"ws://127.0.0.1:{int(port)}{path}")
        return self._tools

    @property
    def _port_file(self) -> Path:
        return self._profile / "DevToolsActivePort"

    def _start(self) -> None:
        has_screen = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
        command = [
            str(self.program),
            f"--user-data-dir={self._profile}",
            "--remote-debugging-port=0",
            "--no-first-run",
            "--no-default-browser-check",
            "--disable-sync",
            *_AWAKE,
            *([] if has_screen else ["--headless=new"]),
            *(["--no-sandbox"] if os.geteuid() == 0 else []),  # it does not start for root otherwise
            "about:blank",
        ]
        try:
            self._profile.mkdir(0o700, parents=True, exist_ok=True)
            self._port_file.unlink(missing_ok=True)
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=child_environment(os.environ),
            )
        except OSError as error:
            raise ToolError(f"{self.program} cannot be started ({error.strerror}); use fetch") from error


@dataclass(frozen=True, slots=True)
class _Tab:
    tools: DevTools
    session: str
    running: Running
    deadline: float

    def see(self, url: str, is_consenting: bool) -> Seen:
        self._call("Browser.setDownloadBehavior", {"behavior": "deny"}, is_of_tab=False)
        self._call("Emulation.setFocusEmulationEnabled", {"enabled": True})  # pages draw, and scroll, as if in front
        failure = self._call("Page.navigate", {"url": url}).get("errorText")
        if failure:
            raise ToolError(f"the page cannot be opened: {failure}")
        self._settle()
        if is_consenting and self._value(_CONSENT):
            self._settle()
        has_scrolled = False
        for _ in range(_SCROLLS):
            if not self._value(_SCROLL):
                break
            has_scrolled = True
        if has_scrolled:
            self._settle()
            self._value("scrollTo(0, 0)")
        html = str(self._value(f"document.documentElement.outerHTML.slice(0, {MOST_HTML_CHARS + 1})"))
        return Seen(str(self._value("location.href")), html[:MOST_HTML_CHARS], len(html) > MOST_HTML_CHARS)

    def _settle(self) -> None:
        """Until it is loaded and its text has not changed for a moment; pages that never are so get _LOAD_S."""
        end = min(time.monotonic() + _LOAD_S, self.deadline)
        length, since = -1, time.monotonic()
        while time.monotonic() < end:
            state = self._value("document.readyState + ' ' + (document.body ? document.body.innerText.length : 0)")
            if state != length:
                length, since = state, time.monotonic()
            elif str(state).startswith("complete") and time.monotonic() - since >= _CALM_S:
                return
            self._pause(_LOOK_S)

    def _pause(self, seconds: float) -> None:
        self.running.interrupted.wait(seconds)

    def _value(self, expression: str) -> Any:
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self._call("Runtime.evaluate", asked)
        return answer.get("result", {}).get("value")

    def _call(self, method: str, parameters: Mapping[str, object], is_of_tab: bool = True) -> dict[str, Any]:
        return self.tools.call(method, parameters, self.running, self.deadline, self.session if is_of_tab else "")
