"""The real DSH, headless, in a home of its own: nothing of the user's is read or written."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLUGIN = Path(__file__).resolve().parents[3] / "src" / "whitedwarf" / "supervisor" / "dsh"
PACKAGE = "whitedwarf-dsh-supervisor"
DRIVER = Path(__file__).with_name("command_driver.mjs")
PATIENCE_S = 90.0


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of a run."""

    code: int
    printed: str
    told: str

    @property
    def commands(self) -> list[tuple[str, str]]:
        """The answers to slash commands: success, error or thrown, and the text."""
        lines = [line for line in self.told.splitlines() if line.startswith("[command] ")]
        told = [json.loads(line.removeprefix("[command] ")) for line in lines]
        return [(answer["kind"], answer["text"]) for answer in told]

    @property
    def session(self) -> str:
        """Its name, of a run with --json."""
        name: str = json.loads(self.printed.splitlines()[0])["sessionId"]
        return name


@dataclass(frozen=True, slots=True)
class Dsh:
    """An installed DSH with a home and a folder to work in."""

    program: Path
    home: Path
    work: Path

    def start(
        self,
        *words: str,
        commands: Sequence[str] = (),
        patches: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
    ) -> "subprocess.Popen[str]":
        """A task on its way. `commands` run meanwhile, and then `commands_done` is there."""
        with_driver = [*patches, self._driver()] if commands else patches
        flags = [word for patch in with_driver for word in ("--patch", str(patch))]
        driven = {"DSH_TEST_COMMANDS": "\n".join(commands), "DSH_TEST_DONE": str(self.commands_done)}
        return subprocess.Popen(
            [self.program, "headless", *flags, *words],
            env=self._environment({**driven, **(environment or {})}),
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def commands_done(self) -> Path:
        """The file that says that all commands have run."""
        return self.home / "commands.done"

    def run(self, *words: str, timeout_s: float = PATIENCE_S, **more: Any) -> Finished:
        """A task to its end."""
        return ended(self.start(*words, **more), timeout_s)

    def dump_config(self, *patches: Path) -> Finished:
        """The tree of settings that DSH would run with."""
        flags = [word for patch in patches for word in ("--patch", str(patch))]
        return self.call("--profile", "headless", *flags, "--dump-config")

    def call(self, *words: str) -> Finished:
        """What is no task."""
        done = subprocess.run(
            [self.program, *words],
            env=self._environment({}),
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def add_plugin(self, options: Mapping[str, Any] | None = None) -> None:
        """As `dsh plugin --profile headless add link:…` leaves it, without needing pnpm; `options` as a person sets."""
        self.dump_config()  # makes the profile
        profile = self.home / "profiles" / "headless"
        modules = profile / "node_modules"
        modules.mkdir(exist_ok=True)
        (modules / PACKAGE).symlink_to(PLUGIN)
        description = json.loads((profile / "package.json").read_text())
        description["dsh"]["profile"]["bundles"].append(PACKAGE)
        (profile / "package.json").write_text(json.dumps(description))
        if options is not None:
            row = {"id": "local-model-supervisor", "config": options}
            (profile / "cordis.patch.yml").write_text(json.dumps([row]))  # JSON is YAML

    def _driver(self) -> Path:
        patch = self.home / "driver.yml"
        patch.write_text(json.dumps([{"insert": [{"id": "command-driver", "name": str(DRIVER)}]}]))
        return patch

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return os.environ | {"DSH_HOME": str(self.home), "DSH_TELEMETRY_MODE": "DISABLED"} | more


def settle(program: Path, folder: Path) -> Dsh:
    """A DSH that has never run."""
    home, work = folder / "dsh home", folder / "work"
    home.mkdir(parents=True)
    work.mkdir()
    return Dsh(program, home, work)


def ended(run: "subprocess.Popen[str]", timeout_s: float = PATIENCE_S) -> Finished:
    """Wait for a task; it is killed when it takes longer."""
    with run:
        try:
            printed, told = run.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            run.kill()
            raise
    return Finished(run.returncode, printed, told)


def route(port: int, model: str = "local", context: int = 32768, **more: int) -> list[dict[str, Any]]:
    """A patch that makes DSH use what listens there, by hand; export-routes has tests of its own."""
    provider = {
        "displayName": "Local",
        "api": "openai-completions",
        "baseURL": f"http://127.0.0.1:{port}/v1",
        "headers": {"Authorization": "Bearer local"},
        "compat": {"supportsDeveloperRole": False, "supportsStore": False, "maxTokensField": "max_tokens"},
        "models": [{"id": model, "contextWindow": context, **more}],
    }
    return [
        {"id": "llm-pi-ai", "config": {"providers": {"local": provider}}},
        {"id": "agent-default-model", "config": {"provider": "local", "model": model}},
    ]
