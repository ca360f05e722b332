"""`GET /props`: the names that clients of llama.cpp's server read, and what only we have. A plain JSON object.

There is no chat template: prompts are written by the model's own recipe, which no template can express. Clients get an
empty text under the usual name and a sentence beside it.
"""

from whitedwarf import __version__
from whitedwarf.conversation.json_value import Json
from whitedwarf.engine.request import DEFAULT_MAX_TOKENS, SamplingOptions
from whitedwarf.server.facts import Facts
from whitedwarf.server.metrics import Load
from whitedwarf.server.models import ServedModel

_NO_TEMPLATE = "there is none: prompts are written by whitedwarf's recipe {}, see `whitedwarf recipe render`"


def props(model: ServedModel, facts: Facts, load: Load) -> dict[str, Json]:
    """What runs here, and how busy it is."""
    return {
        "default_generation_settings": _defaults(model, is_processing=load.running > 0),
        "total_slots": facts.total_slots,
        "model_alias": model.id,
        "model_path": facts.file_name,
        "model": model.as_json(),
        "n_ctx": model.context_length,
        "modalities": {"vision": False, "audio": False},
        "chat_template": "",
        "chat_template_note": _NO_TEMPLATE.format(facts.recipe),
        "build_info": f"whitedwarf {__version__}",
        "version": __version__,
        "backend": facts.backend,
        "recipe": facts.recipe,
        "power_percent": facts.power_percent,
        "steering": facts.steering,
        "uptime_s": round(facts.uptime_s, 3),
        "requests": {"waiting": load.waiting, "running": load.running, "max_waiting": facts.max_waiting},
        "prefix_memory": facts.prefix_json(),
        "disk": facts.disk_json(),
        "placement": facts.placement,
        "streaming": facts.streaming,
        "experts": facts.expert_json(),
    }


def _defaults(model: ServedModel, *, is_processing: bool) -> dict[str, Json]:
    sampling = SamplingOptions()
    params: dict[str, Json] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "n_predict": min(model.default_max_tokens or DEFAULT_MAX_TOKENS, model.context_length),
    }
    return {"n_ctx": model.context_length, "is_processing": is_processing, "params": params}
