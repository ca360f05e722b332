"""States as arrays, for files, whoever holds the state: one process, or several that have some layers each."""

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

from whitedwarf.model.base import Ids, Snapshot
from whitedwarf.model.session_payload import LayerArrays

ArraysKind = Literal["plain", "packed"]  # session_payload.py, packed_session.py


class StateArrays(Protocol):
    """Takes apart and puts together the states of one model. Of equal states it gives equal arrays, bit for bit,
    however many processes hold them."""

    def accepts(self, snapshot: Snapshot) -> bool:
        """Whether it is of this model."""

    def of(self, snapshot: Snapshot) -> Iterator[LayerArrays]:
        """The arrays of every layer of the model, made one by one; from any thread."""

    def restored(self, ids: Ids, layers: Iterable[LayerArrays]) -> Snapshot:
        """What the arrays are of, a state that has consumed `ids`; ValueError if one has not the shape that their
        number and the model ask for."""
