"""One function per case of science.toml that a machine can check: the right choice, or the numbers in it, unrounded.

Constants are CODATA's unless the case gives its own. Where a case has a closed formula the function prefers another way
to the number: an integral, a simulation, a root found by bisection, an eigenvalue.
"""

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

C = 299_792_458.0
G = 6.674e-11
GAS = 8.314
FARADAY = 96485.0


def widened_well() -> Sequence[float]:
    # the old ground state on [0, 1], the levels of [0, 3]
    x = (np.arange(200_000) + 0.5) / 200_000
    overlaps = [
        float(np.mean(math.sqrt(2) * np.sin(np.pi * x) * math.sqrt(2 / 3) * np.sin(n * np.pi * x / 3)))
        for n in range(1, 12)
    ]
    chances = [overlap**2 for overlap in overlaps]
    best = max(range(11), key=chances.__getitem__)
    return best + 1, chances[best]


def demagnetised_salt() -> Sequence[float]:
    applied, final, internal, start = 1.00, 0.050, 0.050, 0.30
    # the entropy is a function of (total field) / temperature
    return (1000 * start * math.hypot(final, internal) / math.hypot(applied, internal),)


def decay_flight() -> Sequence[float]:
    low, high = 0.0, 1.0  # momentum of the products, mass of the parent = 1
    for _ in range(100):
        p = (low + high) / 2
        low, high = (p, high) if math.hypot(0.4, p) + math.hypot(0.2, p) < 1 else (low, p)
    return (low / 0.4 * C * 2.0e-9,)


def waveguide_delay() -> Sequence[float]:
    length, width, f = 12.0, 0.020, 10e9

    def wavenumber(frequency: float) -> float:
        return math.sqrt((2 * math.pi * frequency / C) ** 2 - (math.pi / width) ** 2)

    step = 1e4
    group_delay = length * (wavenumber(f + step) - wavenumber(f - step)) / (2 * step * 2 * math.pi)
    return (1e9 * (group_delay - length / C),)


def free_expansion() -> Sequence[float]:
    # dT = -(a / (V^2 Cv)) dV for one mole, summed
    v = np.geomspace(0.5e-3, 5.0e-3, 200_001)
    middle = (v[1:] + v[:-1]) / 2
    return (float(np.sum(-0.137 / (middle**2 * 20.8) * np.diff(v))),)


def etalon_gap() -> Sequence[float]:
    wavelength, difference, r = 600.00e-9, 0.0040e-9, 0.90
    finesse = math.pi * math.sqrt(r) / (1 - r)
    # order m = 2 d / wavelength; resolving power = m * finesse
    return (1e3 * (wavelength / difference) / finesse * wavelength / 2,)


def daughter_activity() -> Sequence[float]:
    mother, daughter = math.log(2) / 2.0, math.log(2) / 8.0  # per hour
    rate = 5.0e9 * 3600
    n = d = 0.0
    step = 1e-4
    for k in range(80_000):  # Heun's method
        made = rate if k < 40_000 else 0.0
        dn1, dd1 = made - mother * n, mother * n - daughter * d
        n2, d2 = n + step * dn1, d + step * dd1
        dn2, dd2 = made - mother * n2, mother * n2 - daughter * d2
        n, d = n + step * (dn1 + dn2) / 2, d + step * (dd1 + dd2) / 2
    return (daughter * d / 3600 / 1e9,)


def rolling_in_a_bowl() -> Sequence[float]:
    # swing from a small angle to the bottom: a quarter of a period
    path, g, angle = 1.00 - 0.20, 9.81, 0.01
    speed, t, step = 0.0, 0.0, 1e-5
    while angle > 0:
        speed -= g * math.sin(angle) / (1.5 * path) * step
        angle += speed * step
        t += step
    return (4 * t,)


def double_star() -> Sequence[float]:
    period, k1, k2 = 10 * 86400.0, 30e3, 90e3
    r1, r2 = k1 * period / (2 * math.pi), k2 * period / (2 * math.pi)
    heavy = k2**2 / r2 * (r1 + r2) ** 2 / G  # the gravity of the heavier one bends the lighter one's path
    return (heavy / 1.989e30,)


def warm_semiconductor() -> Sequence[float]:
    donors, intrinsic = 1.0e15, 2.0e15
    low, high = donors, 10 * donors
    for _ in range(100):
        n = (low + high) / 2
        low, high = (n, high) if n - intrinsic**2 / n < donors else (low, n)
    return (1 / (1.602e-19 * (low * 1350 + intrinsic**2 / low * 480)),)


def intermediate_maximum() -> Sequence[float]:
    a, b, most, step = 1.0, 0.0, 0.0, 1e-4
    while True:
        da, db = -0.30 * a, 0.30 * a - 0.10 * b
        a2, b2 = a + step * da, b + step * db
        a, b = a + step * (da - 0.30 * a2) / 2, b + step * (db + 0.30 * a2 - 0.10 * b2) / 2
        if b < most:
            return (most,)
        most = b


def silver_in_ammonia() -> Sequence[float]:
    silver = 0.010 / (10**7.20 * 1.0**2)  # free ions beside the complex
    return (0.799 + GAS * 298.15 / FARADAY * math.log(silver),)


def ampholyte_ph() -> Sequence[float]:
    k1, k2, salt = 1.0e-2, 1.0e-3, 0.0050
    low, high = 0.0, 14.0
    for _ in range(200):
        ph = (low + high) / 2
        h = 10**-ph
        share = h * h + k1 * h + k1 * k2
        charge = salt + h - 1e-14 / h - salt * (k1 * h + 2 * k1 * k2) / share
        low, high = (ph, high) if charge > 0 else (low, ph)
    return (low,)


def dissociating_gas() -> Sequence[float]:
    k = 0.150 * math.exp(-57200 / GAS * (1 / 318.0 - 1 / 298.0))
    low, high = 0.0, 1.0
    for _ in range(100):
        a = (low + high) / 2
        pressure_no2, pressure_n2o4 = 2 * a / (1 + a), (1 - a) / (1 + a)
        low, high = (a, high) if pressure_no2**2 / pressure_n2o4 < k else (low, a)
    return (92.0 * (1 - low) / (1 + low) + 46.0 * 2 * low / (1 + low),)


def trimethylenemethane() -> str:
    bonds = np.zeros((4, 4))
    bonds[0, 1:] = bonds[1:, 0] = 1
    energies = sorted(np.linalg.eigvalsh(bonds), reverse=True)  # in units of beta
    degenerate = abs(energies[1] - energies[2]) < 1e-12  # then two electrons with equal spin
    beta = 2 * energies[0] + (energies[1] + energies[2] if degenerate else 2 * energies[1])
    return f"4α + {beta:.2f}β, {'triplet' if degenerate else 'singlet'}"


def strongly_distorted() -> str:
    electrons = {  # in t2g and in e_g
        "[CoF₆]³⁻": (4, 2),
        "[Mn(CN)₆]³⁻": (4, 0),
        "[Cr(H₂O)₆]²⁺": (3, 1),
        "[Cu(H₂O)₆]²⁺": (6, 3),
    }
    found = []
    for name, (lower, upper) in electrons.items():
        unpaired = (lower if lower <= 3 else 6 - lower) + (upper if upper <= 2 else 4 - upper)
        if abs(math.sqrt(unpaired * (unpaired + 2)) - 4.90) < 0.01 and upper % 2 == 1:
            found.append(name)
    (only,) = found
    return only


def heptadienols() -> Sequence[float]:
    seen = set()
    for left, right, turn in product("EZ", "EZ", "+-"):
        # read from the other end, the two ligands of C-4 change places, and with them its sense
        mirrored = (right, left, "-" if turn == "+" else "+")
        centre = left != right  # equal ligands: no sense at C-4
        seen.add(min((left, right, turn), mirrored) if centre else (left, right, ""))
    return (len(seen),)


def cousins() -> Sequence[float]:
    q = math.sqrt(1 / 2500)
    # both genes from one ancestor's copy with chance 1/16, else drawn apart
    return ((q / 16 + q * q * 15 / 16) * 2500,)


def uncompetitive_dose() -> Sequence[float]:
    # apparent Km and Vmax are divided by 1 + I/K: 60 to 40 and 90 to 60 by 15
    k = 15 / (60 / 40 - 1)

    def rate(inhibitor: float) -> float:
        return 90 * 120 / (60 + 120 * (1 + inhibitor / k))

    low, high = 0.0, 1e4
    for _ in range(200):
        dose = (low + high) / 2
        low, high = (dose, high) if rate(dose) > rate(0) / 2 else (low, dose)
    return (low,)


def three_point_cross() -> str:
    counts = {"AbC": 404, "aBc": 402, "ABc": 63, "abC": 57, "ABC": 38, "abc": 32, "Abc": 3, "aBC": 1}
    parents = ("AbC", "aBc")

    def recombined(i: int, j: int) -> float:
        pairs = {(parent[i], parent[j]) for parent in parents}
        return sum(n for kind, n in counts.items() if (kind[i], kind[j]) not in pairs) / sum(counts.values())

    rates = {frozenset((i, j)): recombined(i, j) for i, j in ((0, 1), (0, 2), (1, 2))}
    ends = max(rates, key=rates.__getitem__)
    (middle,) = {0, 1, 2} - ends
    expected = math.prod(rates[frozenset((end, middle))] for end in ends)
    double = (counts["Abc"] + counts["aBC"]) / sum(counts.values())
    return f"{'ABC'[middle]} is in the middle; the interference is {1 - double / expected:.2f}"


def efficiency_corrected() -> Sequence[float]:
    target, reference = 10 ** (1 / 3.60), 10 ** (1 / 3.32)
    return (target**3.8 / reference**0.8,)


def membrane_voltage() -> Sequence[float]:
    k, na, cl = 1.0, 0.80, 0.45
    top = k * 5 + na * 145 + cl * 10
    bottom = k * 140 + na * 12 + cl * 110
    return (1000 * GAS * 310.15 / FARADAY * math.log(top / bottom),)


def youngest_class() -> Sequence[float]:
    life = np.array([[0.0, 2.0, 3.0], [0.5, 0.0, 0.0], [0.0, 0.4, 0.0]])
    population = np.ones(3)
    for _ in range(500):
        population = life @ population
        population /= population.sum()
    return (100 * float(population[0]),)


def lac_operons() -> str:
    repressors = ["super", "none"]
    operons = [("+", {"β-galactosidase"}), ("constitutive", {"permease"})]  # operator, enzymes that work

    def made(inducer: bool) -> set[str]:
        active = [r for r in repressors if r == "super" or (r == "normal" and not inducer)]
        on = [enzymes for operator, enzymes in operons if operator == "constitutive" or not active]
        return set().union(*on)

    def when(enzyme: str) -> str:
        return {
            (True, True): "with and without inducer",
            (True, False): "only with inducer",
            (False, False): "never",
        }[enzyme in made(True), enzyme in made(False)]

    return f"β-galactosidase {when('β-galactosidase')}; permease {when('permease')}"


VERIFIERS: dict[str, Callable[[], str | Sequence[float]]] = {
    "science-001": widened_well,
    "science-002": demagnetised_salt,
    "science-003": decay_flight,
    "science-004": waveguide_delay,
    "science-005": free_expansion,
    "science-006": etalon_gap,
    "science-007": daughter_activity,
    "science-008": rolling_in_a_bowl,
    "science-009": double_star,
    "science-010": warm_semiconductor,
    "science-011": intermediate_maximum,
    "science-012": silver_in_ammonia,
    "science-013": ampholyte_ph,
    "science-014": dissociating_gas,
    "science-015": trimethylenemethane,
    "science-017": strongly_distorted,
    "science-018": heptadienols,
    "science-019": cousins,
    "science-020": uncompetitive_dose,
    "science-021": three_point_cross,
    "science-022": efficiency_corrected,
    "science-023": membrane_voltage,
    "science-024": youngest_class,
    "science-025": lac_operons,
}
"""A function's result: the text of the right choice, or the numbers in it, unrounded."""

DERIVED = {"science-016"}
"""What rests on the derivation beside it: the reading of spectra."""
