"""The hub over HTTP: what a repository holds, what a file must be, and its bytes from any place on.

The only module that knows huggingface_hub, which is imported when the first question is asked (0.3 s).
Promises: every failure is a DownloadError in words for the user, or a TransferCutError where trying again may help;
the access token is sent to the hub alone, never to the store it redirects to. Writes nothing to the disk.
Does not use the hub library's own downloads: since its version 2 they begin anew in every process, and a model of
81 GB wants to be continued; files above 50 GB it fetches by another protocol only, which cannot be continued either.
"""

import logging
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from whitedwarf.errors import DownloadError, UsageError
from whitedwarf.weights.part_file import Identity
from whitedwarf.weights.token import Token

if TYPE_CHECKING:
    from httpx2 import Response
    from huggingface_hub.errors import HfHubHTTPError

DEFAULT_ENDPOINT = "https://huggingface.co"
ENDPOINT_VARIABLE = "HF_ENDPOINT"
_TIMEOUT_S = 30.0  # for a connection, and between two pieces of an answer
_NO_HUB = f"expected a hub such as {DEFAULT_ENDPOINT}: check {ENDPOINT_VARIABLE}"
_TRY_AGAIN = (408, 429, 500, 502, 503, 504)


class TransferCutError(DownloadError):
    """The connection failed, or the hub is busy: what has arrived is good, and the next try may succeed.

    `wait_s`: how long the hub asked to be left alone.
    """

    def __init__(self, text: str, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file at one commit."""

    repo: str
    commit: str
    path: str
    identity: Identity


def find_endpoint(environment: Mapping[str, str] = os.environ) -> str:
    """The hub's address: HF_ENDPOINT, else huggingface.co. UsageError for what is no address."""
    address = environment.get(ENDPOINT_VARIABLE, "").strip().rstrip("/") or DEFAULT_ENDPOINT
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(f"{ENDPOINT_VARIABLE}={address}: expected an address such as {DEFAULT_ENDPOINT}")
    return address


class Hub:
    """A hub and the right to ask it."""

    def __init__(self, endpoint: str, token: Token | None = None) -> None:
        self.endpoint = endpoint
        self._token = token

    def list_files(self, repo: str, revision: str) -> tuple[str, ...]:
        """All paths in a repository."""
        from huggingface_hub import HfApi
        from huggingface_hub.hf_api import RepoFile

        with self._failures_told(repo, revision):
            try:
                entries = HfApi(self.endpoint, token=self._secret).list_repo_tree(
                    repo, recursive=True, revision=revision
                )
                return tuple(entry.path for entry in entries if isinstance(entry, RepoFile))
            except (JSONDecodeError, KeyError, TypeError, AttributeError) as error:  # the library trusts the answer
                raise DownloadError(f"{self.endpoint} sent no list of files for {repo}; {_NO_HUB}") from error

    def describe(self, repo: str, revision: str, path: str) -> RemoteFile:
        """Commit, size and digest of a file."""
        from huggingface_hub.file_download import get_hf_file_metadata

        url = self._url(repo, revision, path)
        with self._failures_told(repo, revision, path):
            found = get_hf_file_metadata(url, token=self._secret, timeout=_TIMEOUT_S, endpoint=self.endpoint)
        if found.size is None or not found.commit_hash:
            raise DownloadError(
                f"{self.endpoint} told no size or commit for {repo}/{path}; is it a hub? See HF_ENDPOINT"
            )
        return RemoteFile(repo, found.commit_hash, path, Identity(found.size, found.etag or ""))

    def read(self, file: RemoteFile, start: int, end: int) -> Generator[bytes]:
        """The bytes [start, end) in pieces, no more and no fewer. TransferCutError when they stop before."""
        from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, but not marked so
            build_hf_headers,
            hf_raise_for_status,
            http_stream_backoff,
        )

        headers = build_hf_headers(token=self._secret)
        headers |= {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
        url = self._url(file.repo, file.commit, file.path)
        left = end - start
        with (
            self._failures_told(file.repo, file.commit, file.path),
            http_stream_backoff("GET", url, headers=headers, timeout=_TIMEOUT_S, max_retries=0) as response,
        ):
            hf_raise_for_status(response)
            _check_range(response, start, end, file)
            for piece in response.iter_bytes():
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return
        raise TransferCutError(f"the answer for {file.path} ended {left} bytes too early")

    @property
    def _secret(self) -> str | bool:
        return self._token.secret if self._token else False  # False: the library shall not look for one by itself

    def _url(self, repo: str, revision: str, path: str) -> str:
        from huggingface_hub import hf_hub_url

        return hf_hub_url(repo, path, revision=revision, endpoint=self.endpoint)

    @contextmanager
    def _failures_told(self, repo: str, revision: str, path: str = "") -> Iterator[None]:
        import httpx2
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled
        from huggingface_hub.utils.logging import set_verbosity

        set_verbosity(logging.CRITICAL)  # it would write into our progress line what we tell ourselves
        try:
            yield
        except HfHubHTTPError as error:
            raise self._refusal(error, repo, revision, path) from error
        except HFValidationError as error:
            raise UsageError(f"{repo} is no repository's name: {error}") from error
        except OfflineModeIsEnabled as error:
            raise DownloadError("HF_HUB_OFFLINE is set, so nothing can be fetched; unset it and run again") from error
        except httpx2.HTTPError as error:
            cause = str(error) or type(error).__name__
            raise TransferCutError(
                f"no answer from {urlsplit(self.endpoint).netloc} ({cause}); check the network"
            ) from error

    def _refusal(self, error: "HfHubHTTPError", repo: str, revision: str, path: str) -> DownloadError:
        status = error.response.status_code
        what = f"{repo}/{path}" if path else repo
        match status:
            case 401:
                return DownloadError(self._unauthorised(what))
            case 403:
                return DownloadError(self._forbidden(what, repo))
            case 404:
                return DownloadError(self._not_found(error, repo, revision, path))
            case 416:
                return DownloadError(f"{what} is shorter than the hub said; run the same command again")
            case _ if status in _TRY_AGAIN:
                busy = f"{urlsplit(self.endpoint).netloc} is busy or broken (HTTP {status})"
                return TransferCutError(busy, _asked_wait_s(error.response.headers))
            case _:
                return DownloadError(f"{self.endpoint} answered HTTP {status} for {what}; expected the file")

    def _unauthorised(self, what: str) -> str:
        if self._token is not None:
            return (
                f"{what}: the hub refused the token from {self._token.source} (HTTP 401), or there is no such "
                f"repository; make a new token at {self.endpoint}/settings/tokens, or leave it out for public models"
            )
        return (
            f"{what}: there is no such repository, or it is private and wants an access token (HTTP 401); check the "
            f"name, or make a token at {self.endpoint}/settings/tokens and give it as HF_TOKEN or --token, or with "
            "`hf auth login`"
        )

    def _forbidden(self, what: str, repo: str) -> str:
        who = f"the token from {self._token.source}" if self._token else "anybody without a token"
        return (
            f"{what}: closed to {who} (HTTP 403); accept its terms at {self.endpoint}/{repo} with the token's account, "
            "and let the token read gated repositories"
        )

    def _not_found(self, error: "HfHubHTTPError", repo: str, revision: str, path: str) -> str:
        from huggingface_hub.errors import RemoteEntryNotFoundError, RevisionNotFoundError

        if isinstance(error, RevisionNotFoundError):
            return f"{repo} has no revision {revision}; leave --revision out for the newest"
        if isinstance(error, RemoteEntryNotFoundError):
            return f"{repo} has no file {path} at {revision}; `whitedwarf pull {repo}` names its models"
        return f"{self.endpoint} has no repository {repo} (HTTP 404); check the name"


def _asked_wait_s(headers: Mapping[str, str]) -> float:
    asked = headers.get("Retry-After", "")  # a date is not understood: the hub sends seconds
    return float(asked) if asked.isascii() and asked.isdigit() else 0.0


def _check_range(response: "Response", start: int, end: int, file: RemoteFile) -> None:
    """A server may answer with the whole file instead: right only where the whole was asked for."""
    wanted = f"bytes {start}-{end - 1}/{file.identity.size_bytes}"
    came = response.headers.get("Content-Range")
    if response.status_code == 206 and came in (wanted, f"bytes {start}-{end - 1}/*"):
        return
    if response.status_code == 200 and start == 0:
        return
    raise DownloadError(f"{file.path}: asked for {wanted}, got {came or f'HTTP {response.status_code}'}; run it again")
