"""Which drafters a model gets, by its flags: n-grams, and the model's own block."""

from whitedwarf.config import ModelSettings
from whitedwarf.engine.drafts import Drafting
from whitedwarf.engine.ngram_drafter import NgramDrafter
from whitedwarf.errors import UsageError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.drafting import MtpDrafts
from whitedwarf.model.loading import LoadedModel, load_mtp
from whitedwarf.model.mtp import MtpBlock

SURE_BACKENDS = ("cpu", "reference")  # a pass of several rows gives the bits of one row each


def check_drafts(settings: ModelSettings) -> None:
    """UsageError for flags that contradict each other."""
    if settings.mtp is None and settings.draft != "mtp":
        return
    asked = "--mtp" if settings.mtp is not None else "--draft mtp"
    if settings.mtp is not None and settings.draft in ("off", "ngram"):
        raise UsageError(f"--mtp and --draft {settings.draft} contradict each other: leave one of them out")
    if settings.ssd_streaming:
        raise UsageError(f"{asked} and --ssd-streaming do not go together, the block has experts, too: leave one out")
    if settings.cluster is not None:
        raise UsageError(f"{asked} is for a model on one machine: leave it or --cluster out")


def open_block(settings: ModelSettings, found: LoadedModel) -> MtpBlock | None:
    """The model's block for drafts, where it is to be used; UsageError where it is asked for and there is none."""
    if settings.mtp is not None:
        return load_mtp(open_gguf(settings.mtp), found.transformer)
    if settings.draft not in ("auto", "mtp") or settings.ssd_streaming:
        return None
    if found.mtp is None and settings.draft == "mtp":
        raise UsageError("--draft mtp: this model's file has no block for drafts; give one with --mtp FILE")
    return found.mtp


def drafting_of(settings: ModelSettings, backend: str, block: MtpBlock | None) -> Drafting | None:
    """For one engine; None: nothing is guessed."""
    if settings.cluster is not None or _draft(settings, backend) == "off":
        return None
    drafts = None if block is None else MtpDrafts(block, settings.mtp_margin)
    return Drafting(NgramDrafter, settings.mtp_draft, block=drafts)


def _draft(settings: ModelSettings, backend: str) -> str:
    asked = settings.draft or ("off" if settings.mtp is None else "mtp")
    return "off" if asked == "auto" and backend not in SURE_BACKENDS else asked


def describe_drafting(drafting: Drafting | None) -> str:
    """In a few words."""
    if drafting is None:
        return "off"
    return "n-grams" if drafting.block is None else "n-grams and MTP"
