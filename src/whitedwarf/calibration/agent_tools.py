"""Tools of coding agents in three manners, and of other programs: definitions, and how they are called."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from whitedwarf.calibration.dice import Dice
from whitedwarf.calibration.words import NOUNS, PEOPLE, PLACES, date, indefinite
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolCall, ToolDefinition

Arguments = Mapping[str, Json]
Asked = tuple[str, Arguments]  # a tool's name, and what it is called with

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "integer"}


def tool(name: str, description: str, required: Mapping[str, Json], /, **optional: Json) -> ToolDefinition:
    """A definition with a JSON Schema."""
    schema: Json = {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolDefinition(name, description, schema)


def described(type_: str, text: str) -> Json:
    """A property with a description."""
    return {"type": type_, "description": text}


def call(dice: Dice, asked: Asked) -> ToolCall:
    """Under a new id."""
    name, arguments = asked
    return ToolCall(f"call_{dice.hex(12)}", name, json.dumps(arguments, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class Manner:
    """How one kind of agent names its tools and their arguments."""

    tools: tuple[ToolDefinition, ...]
    reading: tuple[str, str]  # tool, argument for the path; an empty argument: by the shell
    running: tuple[str, str]
    editing: str  # lines, edits or patch

    def read(self, path: str) -> Asked:
        name, argument = self.reading
        return (name, {argument: path}) if argument else self.run(f"cat -n {path}")

    def run(self, command: str) -> Asked:
        name, argument = self.running
        return name, {argument: ["bash", "-lc", command] if self.editing == "patch" else command}

    def search(self, pattern: str, folder: str) -> Asked:
        if any(known.name == "Grep" for known in self.tools):
            return "Grep", {"pattern": pattern, "path": folder, "output_mode": "content"}
        return self.run(f"rg -n '{pattern}' {folder}")

    def edit(self, path: str, old: str, new: str, patch: str) -> Asked:
        match self.editing:
            case "lines":
                return "Edit", {"file_path": path, "old_string": old, "new_string": new}
            case "edits":
                return "edit", {"path": path, "edits": [{"oldText": old, "newText": new}]}
            case _:
                return "apply_patch", {"input": f"*** Begin Patch\n*** Update File: {path}\n{patch}\n*** End Patch"}


MANNERS = (
    Manner(
        tools=(
            tool(
                "Read",
                "Shows a file with line numbers. Paths are absolute or relative to the project.",
                {"file_path": described("string", "The file to show")},
                offset=described("integer", "First line to show"),
                limit=described("integer", "How many lines to show"),
            ),
            tool(
                "Edit",
                "Replaces a piece of text in a file. The old text has to occur exactly once.",
                {"file_path": _TEXT, "old_string": _TEXT, "new_string": _TEXT},
                replace_all={"type": "boolean", "default": False},
            ),
            tool(
                "Bash",
                "Runs a command in a shell and gives its output. Do not use it to read or to change files.",
                {"command": described("string", "The command line")},
                description=described("string", "What it does, in five to ten words"),
                timeout=described("integer", "Milliseconds, at most 600000"),
            ),
            tool(
                "Grep",
                "Searches files with a regular expression.",
                {"pattern": _TEXT},
                path=_TEXT,
                glob=_TEXT,
                output_mode={"type": "string", "enum": ["content", "files_with_matches", "count"]},
            ),
            tool(
                "TodoWrite",
                "Keeps the list of what is to be done.",
                {
                    "todos": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "content": _TEXT,
                                "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                            },
                            "required": ["content", "status"],
                        },
                    }
                },
            ),
        ),
        reading=("Read", "file_path"),
        running=("Bash", "command"),
        editing="lines",
    ),
    Manner(
        tools=(
            tool(
                "shell",
                "Runs a command and returns its output.",
                {"command": {"type": "array", "items": _TEXT, "description": "The program and its arguments"}},
                workdir=_TEXT,
                timeout_ms=_NUMBER,
            ),
            tool("apply_patch", "Changes files by a patch between Begin Patch and End Patch.", {"input": _TEXT}),
            tool(
                "update_plan",
                "Shows the user the steps of the work and how far it is.",
                {
                    "plan": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"step": _TEXT, "status": _TEXT}},
                    }
                },
                explanation=_TEXT,
            ),
        ),
        reading=("shell", ""),
        running=("shell", "command"),
        editing="patch",
    ),
    Manner(
        tools=(
            tool("read", "Read a text file.", {"path": _TEXT}, offset=_NUMBER, limit=_NUMBER),
            tool("write", "Write a file; folders are made where they are missing.", {"path": _TEXT, "content": _TEXT}),
            tool(
                "edit",
                "Make one or more replacements in a file.",
                {
                    "path": _TEXT,
                    "edits": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"oldText": _TEXT, "newText": _TEXT}},
                    },
                },
            ),
            tool("bash", "Execute a bash command.", {"command": _TEXT}, timeout=_NUMBER),
        ),
        reading=("read", "path"),
        running=("bash", "command"),
        editing="edits",
    ),
)

SERVICES = (
    tool(
        "get_weather",
        "Current weather and forecast for a place.",
        {"location": described("string", "Town, e.g. Bergen")},
        days=described("integer", "Days of forecast, 1 to 7"),
        unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
    ),
    tool(
        "search_contacts", "Find people in the address book.", {"query": _TEXT}, limit={"type": "integer", "default": 5}
    ),
    tool(
        "create_event",
        "Put an event into the calendar.",
        {"title": _TEXT, "start": described("string", "ISO 8601"), "minutes": _NUMBER},
        attendees={"type": "array", "items": _TEXT},
    ),
    tool(
        "query_orders",
        "Orders of the shop that match a filter.",
        {"filter": {"type": "object", "properties": {"status": _TEXT, "since": _TEXT, "minimum": {"type": "number"}}}},
        limit=_NUMBER,
    ),
    tool("convert_currency", "Convert an amount of money.", {"amount": {"type": "number"}, "from": _TEXT, "to": _TEXT}),
    tool("send_message", "Send a message to a person.", {"to": _TEXT, "body": _TEXT}, urgent={"type": "boolean"}),
    tool("web_search", "Search the web.", {"query": _TEXT}, max_results=_NUMBER),
)


def service_call(dice: Dice, name: str) -> tuple[str, Asked, str]:
    """A wish, the call that fulfils it, and what comes back."""
    town, person, noun, day = dice.pick(PLACES), dice.pick(PEOPLE), dice.pick(NOUNS), date(dice)
    match name:
        case "get_weather":
            low = dice.between(-12, 24)
            days: list[Json] = [
                {"day": n, "low": low + dice.below(3), "high": low + dice.between(4, 11), "rain_mm": dice.below(30)}
                for n in range(1, dice.between(2, 5))
            ]
            result: Json = {"location": town, "unit": "celsius", "days": days}
            return f"how the weather will be in {town}", (name, {"location": town, "days": len(days)}), _json(result)
        case "search_contacts":
            found: Json = {
                "name": person,
                "email": f"{person.lower()}@{noun}.example",
                "phone": f"+47 {dice.digits(8)}",
            }
            return f"how to reach {person}", (name, {"query": person}), _json([found])
        case "create_event":
            start = f"{day}T{dice.between(8, 17):02}:{dice.pick(('00', '15', '30'))}"
            asked: Arguments = {"title": f"{noun} review", "start": start, "minutes": 45, "attendees": [person]}
            return (
                f"{indefinite(noun)} review with {person} on {day}",
                (name, asked),
                _json({"id": dice.hex(8), "status": "confirmed"}),
            )
        case "query_orders":
            rows: Json = [
                {
                    "id": int(dice.digits(6)),
                    "item": dice.pick(NOUNS),
                    "total": dice.between(500, 90000) / 100,
                    "status": "open",
                }
                for _ in range(dice.between(1, 6))
            ]
            return (
                f"which orders are still open since {day}",
                (name, {"filter": {"status": "open", "since": day}}),
                _json(rows),
            )
        case "convert_currency":
            amount, rate = dice.between(10, 9000), dice.between(50, 199)
            money: Json = {"amount": amount, "rate": rate / 100, "result": amount * rate / 100}
            return (
                f"what {amount} euros are in dollars",
                (name, {"amount": amount, "from": "EUR", "to": "USD"}),
                _json(money),
            )
        case "send_message":
            body = f"The {noun} is ready; please pick it up before {day}."
            return (
                f"to tell {person} that the {noun} is ready",
                (name, {"to": person, "body": body}),
                _json({"sent": True}),
            )
        case _:
            hits: Json = [
                {
                    "title": f"{dice.pick(NOUNS).title()} and {noun}",
                    "url": f"https://{dice.pick(NOUNS)}.example/{dice.hex(6)}",
                }
                for _ in range(3)
            ]
            return f"what is known about {indefinite(noun)} in {town}", (name, {"query": f"{noun} {town}"}), _json(hits)


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
