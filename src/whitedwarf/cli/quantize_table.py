"""What a quantisation will do, or has done: a table of tensors, totals of each type, and the same as JSON."""

from collections import Counter
from collections.abc import Iterator

from whitedwarf.engine.memory import size_text
from whitedwarf.gguf.quantize_plan import QuantizedTensor, QuantizePlan
from whitedwarf.gguf.tensor_source import rows_and_columns

_WEIGHED = {"copy": "copied", "none": "", "energy": "by column energy", "imatrix": "by imatrix"}


def source_bytes(plan: QuantizePlan) -> int:
    """Of the tensors as they are now."""
    return sum(tensor.source.size_bytes for tensor in plan.tensors)


def plan_lines(plan: QuantizePlan) -> Iterator[str]:
    """A line for each tensor, then one for each type."""
    width = max((len(tensor.name) for tensor in plan.tensors), default=4)
    for tensor in plan.tensors:
        shape = " x ".join(map(str, tensor.shape))
        change = f"{tensor.source.type_name:>7} -> {tensor.type.name:<7}"
        row = f"{tensor.name:<{width}}  {shape:>22}  {change}  {size_text(tensor.size_bytes):>9}"
        yield f"{row}  {_WEIGHED[tensor.weighing]}".rstrip()
    yield ""
    yield from type_lines(plan)


def type_lines(plan: QuantizePlan) -> Iterator[str]:
    """Tensors, numbers and bytes of each type."""
    tensors: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for tensor in plan.tensors:
        tensors[tensor.type.name] += 1
        numbers[tensor.type.name] += _elements(tensor)
        size[tensor.type.name] += tensor.size_bytes
    for name, size_bytes in size.most_common():
        bits = 8 * size_bytes / numbers[name]
        yield f"{name:<8} {tensors[name]:>5} tensors  {size_text(size_bytes):>9}  {bits:.2f} bits a weight"


def summary_line(plan: QuantizePlan) -> str:
    """Before and after."""
    total = sum(map(_elements, plan.tensors))
    bits = 8 * sum(tensor.size_bytes for tensor in plan.tensors) / max(total, 1)
    return (
        f"{plan.layout.path}: {size_text(plan.size_bytes)} from {size_text(source_bytes(plan))}, "
        f"{len(plan.tensors)} tensors, {bits:.2f} bits a weight"
    )


def plan_json(plan: QuantizePlan, is_written: bool) -> dict[str, object]:
    """The same for programs."""
    return {
        "path": str(plan.layout.path),
        "is_written": is_written,
        "size_bytes": plan.size_bytes,
        "source_bytes": source_bytes(plan),
        "notes": list(plan.notes),
        "tensors": [
            {
                "name": tensor.name,
                "shape": list(tensor.shape),
                "source_type": tensor.source.type_name,
                "type": tensor.type.name,
                "source_bytes": tensor.source.size_bytes,
                "size_bytes": tensor.size_bytes,
                "weighed_by": tensor.weighing,
            }
            for tensor in plan.tensors
        ],
    }


def _elements(tensor: QuantizedTensor) -> int:
    matrices, rows, columns = rows_and_columns(tensor.shape)
    return matrices * rows * columns
