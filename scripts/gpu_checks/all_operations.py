"""Part `ops`: whole passes of a few layers, which take longest to compile, then the operations one by one."""

from collections.abc import Iterator

from gpu_checks import model_cases, op_cases, span_cases
from gpu_checks.case import Case
from gpu_checks.setting import Setting


def cases(setting: Setting) -> Iterator[Case]:
    yield from model_cases.cases(setting)
    yield from op_cases.cases(setting)
    yield from span_cases.cases(setting)
