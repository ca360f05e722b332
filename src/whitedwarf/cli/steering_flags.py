"""From the steering that the flags ask for to a model under it; model/steering_wish.py says what may be asked."""

from whitedwarf.cli.loading import LoadedModel, note
from whitedwarf.conversation.json_value import Json
from whitedwarf.model.steering_wish import SteeringWish as SteeringWish
from whitedwarf.model.steering_wish import steering_wish as steering_wish


def steered(loaded: LoadedModel, wish: SteeringWish | None) -> LoadedModel:
    """The model under the steering that was asked for; a line on stderr says so."""
    if wish is None:
        return loaded
    result = loaded.steered(wish.steering(loaded.transformer.config, note))
    note(f"steering: {wish}")
    return result


def steering_facts(wish: SteeringWish, loaded: LoadedModel) -> Json:
    """What a server tells about it."""
    steering = loaded.transformer.steering
    assert steering is not None
    return {"file": wish.file.name, "ffn": wish.ffn, "attention": wish.attention, "digest": steering.digest}
