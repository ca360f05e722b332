"""Tools that agents really have: their usual names and parameters, how users ask for them, what they return.

The same tool is offered under many names, so that the offered one has to be looked up.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from nano.curriculum.texts import sentence
from nano.curriculum.values import (
    Maker,
    command,
    digits,
    email,
    expression,
    file_name,
    folder,
    invented,
    one_of,
    path,
    url,
    word,
    words,
)
from nano.curriculum.words import CITIES, NOUNS

ValueType = Literal["string", "integer", "boolean", "number", "array"]


@dataclass(frozen=True)
class Slot:
    """A parameter of a known tool under all its usual names."""

    type: ValueType
    names: tuple[str, ...]
    value: Maker[object]
    description: str


@dataclass(frozen=True)
class KnownTool:
    """A kind of tool. {0}, {1} in requests and answers are the values, {r} the result."""

    names: tuple[str, ...]
    slots: tuple[Slot, ...]
    requests: tuple[str, ...]
    result: Maker[str]
    answer: str
    descriptions: tuple[str, ...]


def weather(rng: Random) -> str:
    sky = rng.choice(["sunny", "cloudy", "rainy", "windy", "foggy", "snowy", "clear", "stormy"])
    return f"{sky}{rng.choice([', ', ' and '])}{rng.randint(-9, 39)}{rng.choice([' degrees', '°C', 'C'])}"


def file_contents(rng: Random) -> str:
    makers: list[Maker[str]] = [
        sentence,
        lambda r: f"{sentence(r)}\n{sentence(r)}",
        lambda r: words(r, 1, 5),
        lambda r: "\n".join(words(r, 1, 3) for _ in range(r.randint(1, 3))),
        lambda r: f'print("{words(r, 1, 3)}")',
        lambda r: f"{r.choice(NOUNS)} = {digits(r, 2)}\n{r.choice(NOUNS)} = {digits(r, 3)}",
        lambda r: json.dumps({r.choice(NOUNS): word(r), r.choice(NOUNS): r.randint(0, 99)}),
    ]
    return one_of(rng, makers)


def listing(rng: Random) -> str:
    return "\n".join(file_name(rng) for _ in range(rng.randint(1, 4)))


def _printed(rng: Random) -> str:
    return one_of(rng, [listing, file_contents, lambda r: words(r, 1, 3), lambda r: digits(r, 2)])


def _either(*texts: str) -> Maker[str]:
    return lambda rng: rng.choice(texts)


def _written(rng: Random) -> str:
    return rng.choice(["ok", "done", "File written.", "success", f"wrote {digits(rng, 2)} bytes"])


def _place(rng: Random) -> str:
    return rng.choice(CITIES) if rng.random() < 0.8 else invented(rng).title()


def _number(rng: Random) -> float:
    return rng.choice([rng.randint(0, 999), rng.randint(0, 99) + 0.5])


def _text(names: str, value: Callable[[Random], str], description: str) -> Slot:
    return Slot("string", tuple(names.split()), value, description)


def _phrase(least: int, most: int) -> Maker[str]:
    return lambda rng: words(rng, least, most)


_ROOMS = ["kitchen", "bedroom", "garage", "office", "bathroom", "hall", "garden"]

KNOWN: dict[str, KnownTool] = {
    "read": KnownTool(
        ("read", "Read", "read_file", "readFile", "open_file", "view", "cat_file", "fs_read"),
        (_text("path file_path filePath filename file", path, "path of the file"),),
        (
            "Read {0}",
            "Read the file {0}.",
            "Show me {0}",
            "What is in {0}?",
            "Open {0}",
            "Please read {0}",
            "What does {0} contain?",
            "show the contents of {0}",
            "Can you read the file {0}?",
            "print {0}",
        ),
        file_contents,
        "The file {0} contains:\n{r}",
        ("Read a file", "Reads a file from disk and returns its text.", "Return the contents of a file."),
    ),
    "write": KnownTool(
        ("write", "Write", "write_file", "writeFile", "save_file", "create_file"),
        (
            _text("path file_path filePath filename", path, "path of the file"),
            _text("content text contents data", _phrase(1, 5), "text to write"),
        ),
        (
            'Write "{1}" to {0}',
            'Create the file {0} with the text "{1}".',
            'Save "{1}" in {0}',
            'Make a file {0} containing "{1}"',
            'Please write "{1}" into the file {0}.',
        ),
        _written,
        "Done, I wrote {0}.",
        ("Write a file", "Writes text to a file, replacing it.", "Create or overwrite a file."),
    ),
    "list": KnownTool(
        ("list", "ls", "LS", "list_dir", "list_files", "listDirectory"),
        (_text("path dir directory folder", folder, "directory to list"),),
        (
            "List the files in {0}",
            "What files are in {0}?",
            "Show the directory {0}",
            "list {0}",
            "Which files are in the folder {0}?",
        ),
        listing,
        "The files in {0} are:\n{r}",
        ("List a directory", "Lists files in a directory.", "Show the entries of a folder."),
    ),
    "bash": KnownTool(
        ("bash", "Bash", "shell", "run_command", "exec", "execute", "terminal", "run_shell_command"),
        (_text("command cmd script", command, "the command to run"),),
        (
            "Run `{0}`",
            "Run the command {0}",
            "Execute `{0}`",
            "run {0}",
            "Please run: {0}",
            "Use the shell to run `{0}`",
            "Execute the command: {0}",
        ),
        _printed,
        "The command printed:\n{r}",
        (
            "Run a shell command",
            "Executes a command in bash and returns the output.",
            "Run a command in the terminal.",
        ),
    ),
    "search": KnownTool(
        ("search", "web_search", "search_web", "google", "WebSearch", "find_info"),
        (_text("query q text search_term", _phrase(1, 4), "what to search for"),),
        (
            "Search for {0}",
            "Search the web for {0}",
            "Look up {0}",
            "Find information about {0}",
            "search: {0}",
            'Please search for "{0}"',
        ),
        sentence,
        "I found this: {r}",
        ("Search the web", "Searches the internet for a query.", "Find pages about a topic."),
    ),
    "grep": KnownTool(
        ("grep", "Grep", "search_files", "find_in_files"),
        (
            _text("pattern regex query", word, "pattern to find"),
            _text("path dir directory", folder, "where to look"),
        ),
        (
            'Find "{0}" in {1}',
            "Search for the pattern {0} in {1}",
            "grep {0} in {1}",
            'Look for "{0}" inside {1}',
        ),
        lambda r: f"{file_name(r)}:{digits(r, 2)}: {words(r, 1, 3)}",
        "I found:\n{r}",
        ("Search in files", "Find a pattern in files.", "Search file contents with a regular expression."),
    ),
    "weather": KnownTool(
        ("get_weather", "weather", "getWeather", "current_weather", "weather_lookup", "get_current_weather"),
        (_text("city location place", _place, "name of the city"),),
        (
            "What is the weather in {0}?",
            "What's the weather in {0}?",
            "How is the weather in {0}?",
            "weather in {0}",
            "Tell me the weather for {0}.",
            "Is it raining in {0}?",
            "Weather in {0} please",
            "What's the weather like in {0} today?",
        ),
        weather,
        "The weather in {0} is {r}.",
        (
            "Get the weather",
            "Returns the current weather for a city.",
            "Get the current weather in a given location",
        ),
    ),
    "time": KnownTool(
        ("get_time", "current_time", "clock", "time_in"),
        (_text("city timezone location", lambda r: r.choice(CITIES), "where"),),
        ("What time is it in {0}?", "Tell me the time in {0}", "current time in {0}", "time in {0}?"),
        lambda r: f"{digits(r, 1)}:{digits(r, 2)}",
        "The time in {0} is {r}.",
        ("Get the time", "Returns the local time of a place."),
    ),
    "calc": KnownTool(
        ("calculator", "calc", "calculate", "evaluate", "math_eval"),
        (_text("expression expr input", expression, "expression to evaluate"),),
        (
            "Use the calculator for {0}",
            "Calculate {0} with the tool",
            "Evaluate {0}",
            "Compute {0} using the calculator",
            "Please evaluate {0}",
        ),
        lambda r: digits(r, r.randint(1, 5)),
        "{0} = {r}",
        ("Evaluate an expression", "A simple calculator.", "Computes a math expression."),
    ),
    "fetch": KnownTool(
        ("fetch", "web_fetch", "WebFetch", "get_url", "download"),
        (_text("url uri link", url, "address to fetch"),),
        ("Fetch {0}", "Open the page {0}", "Download {0}", "Get {0}", "What is on {0} ?"),
        sentence,
        "The page says: {r}",
        ("Fetch a page", "Downloads a web page."),
    ),
    "mail": KnownTool(
        ("send_email", "email", "send_mail", "mail"),
        (
            _text("to recipient address", email, "who gets it"),
            _text("subject title", _phrase(1, 3), "subject line"),
        ),
        (
            'Send an email to {0} with subject "{1}"',
            'Email {0} about "{1}"',
            'Send mail to {0} with the subject "{1}".',
        ),
        _either("sent", "ok", "queued"),
        "Done, I sent the email to {0}.",
        ("Send an email", "Sends a message by email."),
    ),
    "timer": KnownTool(
        ("set_timer", "timer", "start_timer", "alarm"),
        (Slot("integer", ("minutes", "duration", "mins"), lambda r: r.randint(1, 90), "number of minutes"),),
        (
            "Set a timer for {0} minutes",
            "Start a {0} minute timer",
            "Timer for {0} minutes please",
            "Remind me in {0} minutes",
        ),
        _either("started", "ok", "timer set"),
        "Done, the timer is set for {0} minutes.",
        ("Set a timer", "Starts a timer."),
    ),
    "light": KnownTool(
        ("set_light", "light_switch", "toggle_light", "lights"),
        (
            _text("room location area", lambda r: r.choice(_ROOMS), "which room"),
            Slot("boolean", ("on", "enabled", "state"), lambda r: r.random() < 0.5, "true to switch on"),
        ),
        ("Set the light in the {0} to {1}", "Light in the {0}: {1}", "Set the {0} light to {1}"),
        _either("ok", "done"),
        "Done, the light in the {0} is set.",
        ("Switch a light", "Turns a light on or off."),
    ),
    "add": KnownTool(
        ("add", "sum", "add_numbers", "plus"),
        (
            Slot("number", ("a", "x", "first"), _number, "first number"),
            Slot("number", ("b", "y", "second"), lambda r: r.randint(0, 999), "second number"),
        ),
        (
            "Use the tool to add {0} and {1}",
            "Add {0} and {1} with the tool",
            "Use the add tool on {0} and {1}",
        ),
        lambda r: digits(r, 3),
        "{0} + {1} = {r}",
        ("Add two numbers", "Returns the sum of two numbers."),
    ),
}
