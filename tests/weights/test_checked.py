"""What a file must be before anything is loaded: complete, consistent, and the main model."""

from pathlib import Path

import numpy as np
import pytest

from fakes.rewritten import Added, random_tensors, rewritten
from whitedwarf.errors import FileFormatError, NotDeepSeekV4Error
from whitedwarf.gguf.census import mtp_tensors
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import synthesise
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.gguf.types import GgmlType, ValueType
from whitedwarf.weights.checked import check_expert_tables, check_model

TINY = model_shape("tiny")
MTP = random_tensors(mtp_tensors(TINY))
TABLE = "blk.1.ffn_gate_tid2eid.weight"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checked") / "tiny.gguf"
    synthesise(path, "tiny", seed=1)
    return path


def nothing(_: str) -> None:
    return None


def table(first: int) -> Added:
    shape = (TINY.vocab_size, TINY.num_experts_used)
    ids = np.zeros(shape, np.int32)
    ids[3, 1] = first
    return GgmlType.I32, shape, ids.reshape(-1).view(np.uint8)


def test_a_main_model_may_bring_its_mtp_block(tiny: Path, tmp_path: Path) -> None:
    with open_gguf(rewritten(tiny, tmp_path / "both.gguf", added=MTP)) as gguf:
        checked = check_model(gguf)
    assert checked.has_mtp
    assert checked.hp.num_layers == TINY.num_layers


def test_an_mtp_block_without_one_of_its_tensors_is_refused(tiny: Path, tmp_path: Path) -> None:
    for missing in ("mtp.0.e_proj.weight", "mtp.0.attn_q_b.weight"):
        rest = {name: added for name, added in MTP.items() if name != missing}
        with (
            open_gguf(rewritten(tiny, tmp_path / "both.gguf", added=rest)) as gguf,
            pytest.raises(FileFormatError, match=rf"both\.gguf: {missing} .* is missing"),
        ):
            check_model(gguf)


def test_an_mtp_block_of_another_model_is_refused(tiny: Path, tmp_path: Path) -> None:
    foreign = MTP | random_tensors({"mtp.0.attn_q_b.weight": mtp_tensors(model_shape("tiny"))["mtp.0.e_proj.weight"]})
    with (
        open_gguf(rewritten(tiny, tmp_path / "both.gguf", added=foreign)) as gguf,
        pytest.raises(FileFormatError, match=r"mtp\.0\.attn_q_b\.weight has shape \[256, 256\], expected \[512, 128\]"),
    ):
        check_model(gguf)


def test_a_dspark_drafter_is_no_mtp_block_and_does_no_harm(tiny: Path, tmp_path: Path) -> None:
    drafter = MTP | {"mtp.0.main_proj.weight": MTP["mtp.0.e_proj.weight"]}
    with open_gguf(rewritten(tiny, tmp_path / "both.gguf", added=drafter)) as gguf:
        assert not check_model(gguf).has_mtp


@pytest.mark.parametrize("kept_keys", [(), ("general.architecture",)])
def test_a_support_file_with_hardly_any_metadata_is_still_called_one(
    tiny: Path, tmp_path: Path, kept_keys: tuple[str, ...]
) -> None:
    path = rewritten(
        tiny,
        tmp_path / "mtp.gguf",
        rename=nothing,
        metadata=lambda values: {key: values[key] for key in kept_keys},
        added=MTP,
    )
    with (
        open_gguf(path) as gguf,
        pytest.raises(FileFormatError, match=r"mtp\.gguf holds only the MTP draft block.*main model's file"),
    ):
        check_model(gguf)


def test_another_architecture_is_named_with_its_file(tiny: Path, tmp_path: Path) -> None:
    path = rewritten(
        tiny,
        tmp_path / "other.gguf",
        metadata=lambda values: {**values, "general.architecture": (ValueType.STRING, "glm4moe")},
    )
    with (
        open_gguf(path) as gguf,
        pytest.raises(NotDeepSeekV4Error, match=r"other\.gguf: general\.architecture: found 'glm4moe'"),
    ):
        check_model(gguf)


@pytest.mark.parametrize("expert", [TINY.num_experts, -1, 1 << 30])
def test_a_token_table_that_names_no_expert_is_refused(tiny: Path, tmp_path: Path, expert: int) -> None:
    with open_gguf(rewritten(tiny, tmp_path / "bad.gguf", added={TABLE: table(expert)})) as gguf:
        checked = check_model(gguf)
        with pytest.raises(FileFormatError, match=rf"bad\.gguf: {TABLE} names expert {expert}, expected 0 to 7"):
            check_expert_tables(checked, str(gguf.paths[0]))


def test_a_sound_token_table_passes(tiny: Path, tmp_path: Path) -> None:
    with open_gguf(rewritten(tiny, tmp_path / "good.gguf", added={TABLE: table(7)})) as gguf:
        check_expert_tables(check_model(gguf), "good.gguf")
