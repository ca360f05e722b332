"""Images in requests: checked and made sources, with the official library's words (spec/recipe.md 11).

`path` is where the request has the image, for error messages now and later. Where an error found here is told of a
place closer by, that one is `error_path`. Every function raises RefusedRequest for what is no image. Promises: time and
memory grow with the image's length and no faster. Does not look inside the image: prompt/images.py does.
"""

from collections.abc import Iterable

from whitedwarf.conversation.content import DataUrlImage, ImageDetail, ImageSource, UrlImage
from whitedwarf.conversation.message import Message, SystemMessage, ToolMessage, UserMessage
from whitedwarf.prompt.data_url import DataUrl, canonical_base64
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.fields import quoted
from whitedwarf.protocol.policy import Policy

UNSUPPORTED_IMAGE = "[Unsupported Image]"
"""What stands for every image, unchecked, in prompts of models that see none."""

FILE_ID_REFUSED = "file_id is not supported. Pass the image as a base64 data url instead."
_MEDIA_TYPES = frozenset({"image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp"})

_UNSEEN = f"This model sees no images: it is told {UNSUPPORTED_IMAGE} in place of each."


def unseen_images(messages: Iterable[Message], policy: Policy) -> tuple[str, ...]:
    """A sentence where a request has images that its model does not see; the official library has none for it."""
    if policy.is_official:
        return ()
    said = (message.content for message in messages if isinstance(message, SystemMessage | UserMessage | ToolMessage))
    is_told = any(isinstance(content, str) and UNSUPPORTED_IMAGE in content for content in said)
    return (_UNSEEN,) if is_told else ()


def image_url_source(
    url: str, detail: str | None, path: str, *, is_file: bool = False, error_path: str | None = None
) -> ImageSource:
    """The image that `url` names, or holds as a data URL; files have to be data URLs.

    ConversationError for an unknown `detail`; None is high.
    """
    place = path if error_path is None else error_path
    if is_file:
        _check_file(url, place)
    level = ImageDetail.HIGH if detail is None else ImageDetail.named(detail)
    if _is_web_address(url):
        return UrlImage(url, level, path)
    _check_data_url(url, place)
    return DataUrlImage(url, level, path)


def file_source(file_id: str | None, file_data: str | None, path: str, *, error_path: str | None = None) -> ImageSource:
    """The image that a file block holds as a data URL."""
    url = file_url(file_id, file_data, path if error_path is None else error_path)
    return image_url_source(url, None, path, error_path=error_path)


def file_url(file_id: str | None, file_data: str | None, place: str) -> str:
    """The data URL that a file block holds, checked as a file and not yet as an image."""
    if file_id is not None and file_data is not None:
        raise _refused(place, "file cannot have both file_id and file_data")
    if file_id is not None:
        raise _refused(place, FILE_ID_REFUSED)
    if file_data is None:
        raise _refused(place, "file must have a file_id or file_data")
    _check_file(file_data, place)
    return file_data


def base64_source(media_type: str, data: str, path: str, *, error_path: str | None = None) -> ImageSource:
    """The image that `data` holds, as a data URL (Messages). `media_type` is one that the request may have."""
    canonical = canonical_base64(data)
    if canonical is None:
        raise _refused(path if error_path is None else error_path, "base64 decode error")
    named = "image/jpeg" if media_type == "image/jpg" else media_type
    return DataUrlImage(f"data:{named};base64,{canonical}", path=path)


def web_source(url: str, path: str, *, error_path: str | None = None) -> ImageSource:
    """The image at `url` (Messages, where data URLs are none)."""
    if not _is_web_address(url):
        raise _refused(path if error_path is None else error_path, f"invalid url: {quoted(url)}")
    return UrlImage(url, path=path)


def file_id_refused(path: str) -> RefusedRequest:
    """The error for an image that is named by the id of a stored file."""
    return _refused(path, FILE_ID_REFUSED)


def _is_web_address(url: str) -> bool:
    return url[:4].lower() == "http"


def _check_data_url(url: str, place: str) -> None:
    parsed = DataUrl.parsed(url)
    if parsed is None or "base64," not in url:
        raise _refused(place, "Unsupported image_url format")
    if parsed.media_type not in _MEDIA_TYPES:
        raise _unsupported(place, "image")
    if parsed.decoded() is None:
        raise _refused(place, "Invalid base64 data")


def _check_file(url: str, place: str) -> None:
    parsed = DataUrl.parsed(url)
    if parsed is not None and parsed.media_type not in _MEDIA_TYPES:
        raise _unsupported(place, "file")
    if parsed is None or parsed.decoded() is None:
        raise _refused(place, "file_data is not a valid base64 data url")


def _unsupported(place: str, kind: str) -> RefusedRequest:
    formats = "has one of the following formats: webp, png, jpeg, and gif."
    return _refused(
        place, f"You have uploaded an unsupported {kind}. Please make sure your {kind} is valid and {formats}"
    )


def _refused(place: str, message: str) -> RefusedRequest:
    return RefusedRequest(f"{place}: {message}")
