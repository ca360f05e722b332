"""Figures in few characters: token counts, rates, durations, bars."""

_EIGHTHS = " ▏▎▍▌▋▊▉"


def count(number: int) -> str:
    """950, 12.3k, 128k, 1.05M."""
    if number < 1000:
        return str(number)
    if number < 99_950:
        return f"{number / 1000:.1f}k".replace(".0k", "k")
    if number < 999_500:
        return f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.2f}M"


def rate(tokens: int, seconds: float) -> str:
    """Tokens per second, or nothing where it cannot be told yet."""
    if seconds <= 0 or tokens <= 0:
        return ""
    speed = tokens / seconds
    return f"{speed:.1f} t/s" if speed < 100 else f"{speed:.0f} t/s"


def duration(seconds: float) -> str:
    """0.4 s, 12 s, 3:05, 2:00:09."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def bar(fraction: float, cells: int) -> str:
    """A bar of so many cells, in steps of an eighth."""
    eighths = round(min(1.0, max(0.0, fraction)) * cells * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(cells)


def percent(part: int, whole: int) -> int:
    """Rounded down, so that 100 means all; 0 of nothing."""
    return min(100, max(0, part) * 100 // whole) if whole > 0 else 0
