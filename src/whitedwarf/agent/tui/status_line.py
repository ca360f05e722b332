"""The line above all, and the one below the editor: what is going on at the left, the context at the right.

Pure. What matters less is left out first where there is little room; nothing is told by a colour alone.
"""

from textual.content import Content

from whitedwarf.agent.events import AnswerEnd
from whitedwarf.agent.tui.activity import Activity, Phase
from whitedwarf.agent.tui.figures import bar, count, duration, percent, rate
from whitedwarf.agent.tui.shown import one_line, shortened

WARN_BEFORE = 0.1  # of the context, before it is shortened
_NARROW, _WIDE = 60, 100
_READING_BAR = 20
_CONTEXT_BAR = 8
_SLOW_S = 2.0  # what takes longer shows its time
Part = tuple[str, str]


def head_line(model: str, workspace: str, title: str, width: int) -> Content:
    """The title of the session, with the model and the folder where there is room."""
    name = one_line(title) or "new session"
    right = f"{one_line(model)} · {one_line(workspace)} " if width >= _NARROW else ""
    name = shortened(name, max(10, width - len(right) - 4))
    left = Content.assemble(" ", (name, "bold"))
    right = shortened(right, max(0, width - left.cell_length - 2))
    return Content.assemble(left, " " * max(1, width - left.cell_length - Content(right).cell_length), right)


def status_line(
    activity: Activity,
    *,
    context: int,
    compact_at: float,
    power: int,
    width: int,
    elapsed_s: float = 0.0,
    hint: str = "",
    is_asking: bool = False,
    is_plain: bool = False,
) -> Content:
    """At most `width` cells. `hint` stands in the place of the state; `is_plain`: words only, none that keep moving."""
    rights = _contexts(activity.used_tokens, context, compact_at, power, width, is_plain)
    if hint:
        choices: list[list[Part]] = [[(hint, "italic")]]
    elif is_asking:
        choices = [[("waiting for your answer", "bold $warning")], [("your answer?", "bold $warning")]]
    else:
        choices = _doing(activity, elapsed_s, is_plain)
    left, right = _fitting(choices, rights, width)
    return Content.assemble(*left, " " * max(0, width - _cells(left) - _cells(right)), *right)


def _doing(activity: Activity, elapsed_s: float, is_plain: bool) -> list[list[Part]]:
    """The same in fewer and fewer words."""
    queued = [(f" · {len(activity.waiting)} queued", "")] if activity.waiting else []
    if activity.phase is Phase.READING and not is_plain:
        return _reading(activity)
    if activity.phase is Phase.COMPACTING and not is_plain:
        return _compacting(activity)
    if activity.is_drawing and not is_plain:
        return _drawing(activity, queued)
    word = _word(activity)
    style = "" if activity.phase is Phase.IDLE else "bold"
    is_slow = activity.phase is not Phase.IDLE and elapsed_s >= _SLOW_S and not is_plain
    took = [(f" · {duration(elapsed_s)}", "")] if is_slow else []
    return [[(word, style), *took, *queued], [(word, style), *took], [(word, style)]]


def _word(activity: Activity) -> str:
    if activity.phase is Phase.RUNNING:
        return f"running {activity.tool}"
    if activity.phase is Phase.IDLE and activity.last_end is AnswerEnd.INTERRUPTED:
        return "interrupted"
    return activity.phase.value


def _reading(activity: Activity) -> list[list[Part]]:
    """The bar, tokens, speed and the time that is left."""
    speed = rate(activity.done, activity.seconds)
    left_s = activity.seconds * (activity.total - activity.done) / activity.done if activity.done else 0.0
    share = activity.done / activity.total if activity.total else 0.0
    done = f"{count(activity.done)}/{count(activity.total)} {percent(activity.done, activity.total)}%"
    eta = f" · {duration(left_s)} left" if activity.done and left_s >= 0.5 else ""
    drawn = (f"▕{bar(share, _READING_BAR)}▏", "$primary")
    speed = f" · {speed}" if speed else ""
    word = ("reading ", "bold")
    return [
        [word, drawn, (f" {done}{speed}{eta}", "")],
        [word, (f"▕{bar(share, _CONTEXT_BAR)}▏", "$primary"), (f" {done}{speed}{eta}", "")],
        [word, (f"{done}{speed}{eta}", "")],
        [word, (f"{percent(activity.done, activity.total)}%{speed}", "")],
        [word, (f"{percent(activity.done, activity.total)}%", "")],
    ]


def _drawing(activity: Activity, queued: list[Part]) -> list[list[Part]]:
    """Tokens, speed, and a sign where nothing is left to chance."""
    word = (activity.phase.value, "bold")
    speed = rate(activity.tokens, activity.seconds)
    figures = f" · {count(activity.tokens)} tokens" + (f" · {speed}" if speed else "")
    sign = [(" · ❄ greedy", "$accent")] if activity.is_greedy else []
    short = [(" ❄", "$accent")] if activity.is_greedy else []
    return [
        [word, (figures, ""), *sign, *queued],
        [word, (figures, ""), *sign],
        [word, (figures, ""), *short],
        [word, (f" · {speed}" if speed else "", ""), *short],
        [word, *short],
    ]


def _compacting(activity: Activity) -> list[list[Part]]:
    what = {"summary": "writing a summary", "rebuild": "reading the rest again"}.get(activity.step, activity.step)
    done = f"{count(activity.done)}/{count(activity.total)}" if activity.total else count(activity.done)
    word = (Phase.COMPACTING.value, "bold $warning")
    return [[word, (f" · {what} · {done} tokens", "")], [word, (f" · {done}", "")], [word]]


def _fitting(lefts: list[list[Part]], rights: list[list[Part]], width: int) -> tuple[list[Part], list[Part]]:
    """The first of the left with the first of the right beside which it has room."""
    for left in lefts:
        for right in rights:
            if _cells(left) + 1 + _cells(right) <= width:
                return left, right
    word, style = lefts[-1][0]
    if len(word) + 1 + _cells(rights[-1]) <= width:
        return [(word, style)], rights[-1]
    return [(shortened(word, max(0, width - 1)), style)], []


def _contexts(used: int, total: int, compact_at: float, power: int, width: int, is_plain: bool) -> list[list[Part]]:
    is_near = total > 0 and used / total >= compact_at - WARN_BEFORE
    style = "bold $warning" if is_near else ""
    figures = f"ctx {count(used)}/{count(total)}"
    near = (" compacts soon" if width >= _WIDE or is_plain else "!") if is_near else ""
    short = [*_power(power, f"⚡{power}% "), (figures + near, style)]
    if width < _NARROW or is_plain:
        return [short]
    drawn = f" ▕{bar(used / total if total else 0.0, _CONTEXT_BAR)}▏ {percent(used, total)}%{near}"
    return [[*_power(power, f"⚡ power {power}% · "), (figures + drawn, style)], short]


def _power(power: int, text: str) -> list[Part]:
    return [(text, "$warning")] if power < 100 else []


def _cells(parts: list[Part]) -> int:
    return Content.assemble(*parts).cell_length
