"""One function per case of general.toml: the right choice word for word, or the numbers in it, unrounded."""

import heapq
import math
import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import product


def cournot_concentration() -> Sequence[float]:
    def index(costs: Sequence[float]) -> float:
        sold = [0.0] * len(costs)
        for _ in range(2000):  # each firm in turn answers the others as well as it can
            for i, cost in enumerate(costs):
                sold[i] = max(0.0, (120 - cost - (sum(sold) - sold[i])) / 2)
        return sum((100 * q / sum(sold)) ** 2 for q in sold)

    return (index([12, 24]) - index([12, 24, 36]),)


def last_day_for_reply() -> str:
    holidays = {date(2025, 12, 25), date(2025, 12, 26), date(2026, 1, 1)}

    def works(day: date) -> bool:
        return day.weekday() < 5 and day not in holidays

    def next_working(day: date) -> date:
        while not works(day):
            day += timedelta(1)
        return day

    received = date(2025, 12, 12)
    assert received.strftime("%A") == "Friday"
    served = next_working(received + timedelta(1))  # after 17:00
    day = next_working(served + timedelta(10))
    for _ in range(6):
        day = next_working(day + timedelta(1))
    return f"{day:%A} {day.day} {day:%B} {day.year}"


def doses_and_interval() -> Sequence[float]:
    volume, rate = 0.5 * 70, math.log(2) / 6.0
    interval = math.log(24 / 8) / rate
    dose, level = volume * (24 - 8), 24.0
    for _ in range(50):  # with these doses the level goes between 24 and 8
        level = level * math.exp(-rate * interval) + dose / volume
    assert math.isclose(level, 24)
    return 24 * volume, dose, interval


def beam_with_overhang() -> Sequence[float]:
    b = (10 * 8 * 4 + 20 * 8) / 6
    a = 10 * 8 + 20 - b

    def moment(x: float) -> float:
        return a * x - 10 * x * x / 2 + (b * (x - 6) if x > 6 else 0)

    steps = [k / 10000 for k in range(80001)]
    assert abs(moment(8)) < 1e-9
    zero = next(x for x in steps if x > 0.1 and moment(x) <= 1e-9)
    return max(abs(moment(x)) for x in steps), zero


def three_tests() -> Sequence[float]:
    ill, well = 0.02 * 0.9 * 0.9 * 0.1, 0.98 * 0.05 * 0.05 * 0.95
    return (ill / (ill + well),)


def surface_form() -> str:
    word = "tanikusitab"
    vowel, voiced = "aeiou", {"p": "b", "t": "d", "k": "g", "s": "z"}
    voiceless = {v: k for k, v in voiced.items()}
    word = re.sub(rf"(?<=[{vowel}])[ptk](?=[{vowel}])", lambda m: voiced[m[0]], word)
    while (shorter := re.sub(rf"([{vowel}][^{vowel}])i(?=[^{vowel}][{vowel}])", r"\1", word, count=1)) != word:
        word = shorter
    word = re.sub("[ptks](?=[bdgz])", lambda m: voiced[m[0]], word)
    word = re.sub("[bdgz](?=[ptks])", lambda m: voiceless[m[0]], word)
    word = re.sub("n(?=[pb])", "m", re.sub("n(?=[kg])", "ŋ", word))
    return re.sub("[bdgz]$", lambda m: voiceless[m[0]], word)


FORMULAS = (
    "((p → q) ∧ (q → r)) → (r → p)",
    "(p → (q → r)) → ((p → q) → r)",
    "((p → q) ∨ (q → r)) → (p → r)",
    "(p ↔ q) ∨ (q ↔ ¬r) ∨ (p ↔ r)",
    "((p ∧ q) → r) → ((p → r) ∧ (q → r))",
    "((p → q) → r) → ((r → p) → p)",
    "((p → q) → (q → p)) ∨ (¬p ↔ r)",
    "(¬p ↔ q) ∨ (¬q ↔ r) ∨ (¬p ↔ r)",
    "(¬p → (q ∧ r)) → ((¬p → q) ∧ (¬r → ¬p))",
    "(p ∧ q) ∨ (q ∧ r) ∨ (p ∧ r)",
)


def only_valid_formula() -> str:
    spelt = {"→": "<=", "↔": "==", "∧": "and", "∨": "or", "¬": "1-"}  # over 0 and 1; every pair has its brackets

    def holds(formula: str, values: tuple[int, ...]) -> bool:
        return bool(eval("".join(spelt.get(c, c) for c in formula), dict(zip("pqr", values, strict=True))))

    (valid,) = (f for f in FORMULAS if all(holds(f, values) for values in product((0, 1), repeat=3)))
    return valid


def after_four_intervals() -> str:
    letters, semitones = "CDEFGAB", [0, 2, 4, 5, 7, 9, 11]
    step, pitch = 4 * 7 + 2, 4 * 12 + 3  # E flat 4: steps of the staff, semitones
    # major sixth up, augmented fourth down, minor seventh up, diminished fifth down
    for steps, size in ((5, 9), (-3, -6), (6, 10), (-4, -6)):
        step, pitch = step + steps, pitch + size
    octave, letter = divmod(step, 7)
    accidental = pitch - octave * 12 - semitones[letter]
    return letters[letter] + {-2: "♭♭", -1: "♭", 0: "", 1: "♯"}[accidental] + str(octave)


def time_above_horizon() -> Sequence[float]:
    latitude, declination, up, steps = math.radians(52), math.radians(20), 0, 1_000_000
    for k in range(steps):
        angle = 2 * math.pi * k / steps
        level = math.sin(latitude) * math.sin(declination)
        up += level + math.cos(latitude) * math.cos(declination) * math.cos(angle) > 0
    minutes = up / steps * (23 * 60 + 56 + 4.1 / 60)
    return minutes // 60, minutes % 60


def smallest_automaton() -> Sequence[float]:
    def accepts(word: str) -> bool:
        return word.count("1") % 3 == 0 and not word.endswith("00")

    words = ["".join(w) for n in range(7) for w in product("01", repeat=n)]
    # words are in one state when no continuation tells them apart
    return (len({tuple(accepts(word + end) for end in words) for word in words}),)


def area_on_mercator() -> Sequence[float]:
    per_cm = 20.0 * math.cos(math.radians(48))  # kilometres, both ways
    return (9.0 * per_cm**2,)


def bond_after_two_years() -> Sequence[float]:
    value = sum(6000 / 1.08**year for year in range(1, 6)) + 100_000 / 1.08**5
    for _ in range(2):
        value += value * 0.08 - 6000
    return (value,)


def bags_of_fertiliser() -> Sequence[float]:
    phosphate = 46 / 0.46
    urea = (120 - 0.18 * phosphate) / 0.46
    potash = 60 / 0.60
    return (2.5 * (phosphate + urea + potash),)


def flipped_bit() -> Sequence[float]:
    word = "101100101110010"

    def right(bits: str) -> bool:
        return all(sum(int(bits[i - 1]) for i in range(1, 16) if i & check) % 2 == 0 for check in (1, 2, 4, 8))

    (position,) = (i for i in range(1, 16) if right(word[: i - 1] + ("0" if word[i - 1] == "1" else "1") + word[i:]))
    return (position,)


def worlds_where_it_holds() -> str:
    sees = {1: (2, 3), 2: (1, 4), 3: (3, 5), 4: (2, 5), 5: ()}
    p = {3, 4}

    def box(where: set[int]) -> set[int]:
        return {w for w in sees if set(sees[w]) <= where}

    def diamond(where: set[int]) -> set[int]:
        return {w for w in sees if set(sees[w]) & where}

    found = box(diamond(p)) - diamond(box(p))
    return "exactly " + " and ".join(str(w) for w in sorted(found))


def seats_by_two_methods() -> str:
    votes = {"A": 47_000, "B": 31_000, "C": 13_000, "D": 9_000}

    def seats(divisor: Callable[[int], int]) -> list[int]:
        won = dict.fromkeys(votes, 0)
        for _ in range(9):
            won[max(votes, key=lambda party: votes[party] / divisor(won[party]))] += 1
        return list(won.values())

    first, second = seats(lambda n: n + 1), seats(lambda n: 2 * n + 1)
    return f"{', '.join(map(str, first))} and {', '.join(map(str, second))}"


def share_infected() -> Sequence[float]:
    s, i, step = 0.70, 1e-9, 2e-3  # time in infectious periods
    while i > 1e-12:
        ds = -2.0 * s * i
        s2, i2 = s + step * ds, i + step * (-ds - i)
        ds2 = -2.0 * s2 * i2
        s, i = s + step * (ds + ds2) / 2, i + step * ((-ds - i) + (-ds2 - i2)) / 2
    return (100 * (0.70 - s),)


def extra_exchanger_area() -> Sequence[float]:
    oil, water = 252.0 / 60, 252.0 / 40  # kW/K

    def area(counter: bool) -> float:
        """Cut the oil's cooling into small steps: dA = dQ / (U dT)."""
        total, steps = 0.0, 100_000
        for k in range(steps):
            heat = (k + 0.5) * 252.0 / steps
            hot = 150 - heat / oil
            cold = 70 - heat / water if counter else 30 + heat / water
            total += 252.0 / steps / (0.5 * (hot - cold))
        return total

    return (100 * (area(False) / area(True) - 1),)


def american_put() -> Sequence[float]:
    up, down, growth, strike = 1.2, 0.8, 1.05, 105.0
    q = (growth - down) / (up - down)

    def value(price: float, periods: int) -> float:
        now = max(0.0, strike - price)
        if periods == 0:
            return now
        return max(now, (q * value(price * up, periods - 1) + (1 - q) * value(price * down, periods - 1)) / growth)

    return (value(100.0, 2),)


def isochron_age() -> Sequence[float]:
    points = ((0.50, 0.7120), (1.50, 0.7260), (2.50, 0.7400))
    start, low, high = 0.7050, 0.0, 1e10

    def now(rubidium: float, years: float) -> float:
        return start + rubidium * math.expm1(1.40e-11 * years)

    for _ in range(100):
        age = (low + high) / 2
        low, high = (age, high) if now(*(points[-1][0], age)) < points[-1][1] else (low, age)
    assert all(abs(now(rubidium, low) - strontium) < 1e-9 for rubidium, strontium in points)
    return (low / 1e6,)


def longer_questionnaire() -> Sequence[float]:
    # ten items of variance t + e each, t the shared part: reliability = 10 t / (10 t + e)
    t = 1.0
    e = 10 * t * (1 - 0.64) / 0.64
    longer = 25 * t / (25 * t + e)
    return (0.40 / math.sqrt(0.64) * math.sqrt(longer),)


def huffman_redundancy() -> Sequence[float]:
    chances = [0.35, 0.25, 0.15, 0.12, 0.08, 0.05]
    heap, mean = list(chances), 0.0
    heapq.heapify(heap)
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        mean += both
        heapq.heappush(heap, both)
    return (mean + sum(p * math.log2(p) for p in chances),)


def old_style_date() -> str:
    def days_before(year: int, month: int, day: int) -> int:
        """Days from 1 January of the year 1, old style, to this one: every fourth year is a leap year."""
        lengths = [31, 29 if year % 4 == 0 else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        return 365 * (year - 1) + (year - 1) // 4 + sum(lengths[: month - 1]) + day - 1

    # the day after Thursday, 4 October 1582, old style, was Friday, 15 October
    anchor = date(1582, 10, 15)
    assert anchor.strftime("%A") == "Friday"
    day = anchor + timedelta(days_before(1683, 3, 14) - days_before(1582, 10, 4) - 1)
    return f"{day:%A}, {day.day} {day:%B}"


def absorbing_panels() -> Sequence[float]:
    surface, volume = 2 * (12 * 8 + 12 * 4 + 8 * 4), 12 * 8 * 4
    low, high = 0.0, 96.0
    for _ in range(100):
        panels = (low + high) / 2
        absorption = 0.08 * (surface - panels) + 0.85 * panels
        low, high = (panels, high) if 0.161 * volume / absorption > 0.90 else (low, panels)
    return (low,)


def heading_and_time() -> Sequence[float]:
    course, wind_to, wind = math.radians(60), math.radians(110 + 180), 30.0
    low, high = 0.0, math.pi / 2  # correction to the right

    def drift(correction: float) -> float:
        """Sideways speed, to the right of the course positive."""
        return 120 * math.sin(correction) + wind * math.sin(wind_to - course)

    for _ in range(100):
        correction = (low + high) / 2
        low, high = (correction, high) if drift(correction) < 0 else (low, correction)
    ground = 120 * math.cos(low) + wind * math.cos(wind_to - course)
    return 60 + math.degrees(low), 150 / ground * 60


VERIFIERS: dict[str, Callable[[], str | Sequence[float]]] = {
    f"general-{number:03}": verifier
    for number, verifier in enumerate(
        (
            cournot_concentration,
            last_day_for_reply,
            doses_and_interval,
            beam_with_overhang,
            three_tests,
            surface_form,
            only_valid_formula,
            after_four_intervals,
            time_above_horizon,
            smallest_automaton,
            area_on_mercator,
            bond_after_two_years,
            bags_of_fertiliser,
            flipped_bit,
            worlds_where_it_holds,
            seats_by_two_methods,
            share_infected,
            extra_exchanger_area,
            american_put,
            isochron_age,
            longer_questionnaire,
            huffman_redundancy,
            old_style_date,
            absorbing_panels,
            heading_and_time,
        ),
        1,
    )
}

DERIVED: set[str] = set()
"""What rests on the derivation beside it: nothing here."""
