"""Lists of numbers on the command lines of instruments, and the points that they ask for."""

from whitedwarf.bench.points import Point, points
from whitedwarf.errors import UsageError

POINT_DEPTHS = "0"
MOST_TOKENS = 1 << 20


def numbers(flag: str, text: str, low: int = 1) -> tuple[int, ...]:
    """Different whole numbers with commas between, ascending; UsageError for anything else."""
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or not low <= found[0] <= found[-1] <= MOST_TOKENS:
        raise UsageError(f"{flag} {text}: expected whole numbers from {low} with commas between, such as 512,2048")
    return tuple(found)


def asked_points(prefill: str, decode: str, depths: str) -> tuple[Point, ...]:
    """All combinations; UsageError where there is none."""
    counts = [[n for n in numbers(flag, text, 0) if n] for flag, text in (("-p", prefill), ("-n", decode))]
    asked = points(counts[0], counts[1], numbers("-d", depths, 0))
    if not asked:
        raise UsageError("nothing to measure: give lengths with -p or -n")
    return asked
