"""The hand-written stub of the native module names what the module has."""

import ast
import re
from pathlib import Path

import pytest

import whitedwarf
from whitedwarf import _native

CLASS_NAMES = {"Buffers", "RowFormat", "Spans"}
STUB = ast.parse((Path(whitedwarf.__file__).parent / "_native.pyi").read_text())
CLASSES = {node.name: node for node in ast.walk(STUB) if isinstance(node, ast.ClassDef)}


def public_names(owner: type) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


@pytest.mark.parametrize(
    "owner", [_native.BytePairs, _native.Kernels, _native.Matrix, _native.ScatteredMatrix, _native.Kernels.RowFormat]
)
def test_stub_and_module_have_the_same_names(owner):
    body = CLASSES[owner.__name__].body
    stubbed = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert stubbed - {"__init__"} == public_names(owner)


@pytest.mark.parametrize("name", sorted(public_names(_native.Kernels) - CLASS_NAMES - {"level", "threads"}))
def test_stubbed_arguments_have_the_module_s_names_in_its_order(name):
    [method] = [node for node in CLASSES["Kernels"].body if isinstance(node, ast.FunctionDef) and node.name == name]
    signature = getattr(_native.Kernels, name).__nb_signature__[0][0]
    without_details = re.sub(r"\[[^]]*\]", "", signature)  # ndarray[dtype=float32, ...] is no Python
    parameters = ast.parse(f"{without_details}: ...").body[0]
    assert isinstance(parameters, ast.FunctionDef)
    assert [argument.arg for argument in method.args.args] == [argument.arg for argument in parameters.args.args]
