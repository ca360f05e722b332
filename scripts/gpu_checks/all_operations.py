"""Part `ops`: the operations on arrays, and those on sequences' stores, in an order that serves decode first."""

from collections.abc import Iterator

from gpu_checks import op_cases, span_cases
from gpu_checks.case import Case
from gpu_checks.setting import Setting


def cases(setting: Setting) -> Iterator[Case]:
    yield from op_cases.cases(setting)
    yield from span_cases.cases(setting)
