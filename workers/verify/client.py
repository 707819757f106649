"""A server's endpoints that answer in ids, asked patiently and within bounds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import urllib3
from urllib3.exceptions import (
    HTTPError,
    LocationParseError,
    MaxRetryError,
    NewConnectionError,
    SSLError,
    TimeoutError,
)
from urllib3.util import Retry, Timeout, parse_url

from promptmill.pipeline.verify.compare import Answer
from promptmill.pipeline.verify.questions import Question
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.workers.verify.answers import read_answer, read_message

CONNECT_SECONDS: Final = 5.0
BUSY: Final = frozenset({429, 502, 503, 504})
"""Answers after which another attempt may well help."""
FAILED: Final = 500
"""An answer that may be the row's own fault."""
MOST_WAIT_SECONDS: Final = 30
"""However long a server asks to wait."""
_NO_ROUTE: Final = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is no prompt."""

    status: int
    message: str

    @property
    def no_endpoint(self) -> bool:
        """Whether nothing is there that could have answered."""
        return self.status in _NO_ROUTE

    @property
    def of_server(self) -> bool:
        """Whether the server failed, and not the request."""
        return self.status >= FAILED


class NoAnswer(Exception):
    """The server took too long, or broke off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a server says of itself."""

    model: str | None
    """The name it serves the model by; None where it names none."""
    max_model_len: int | None
    version: str | None


class Server:
    """One server.

    Args:
        url: where it listens, with or without /v1.
        api_key: sent to it alone; never shown.
        timeout: seconds for one answer.
        pause: seconds before the second attempt; doubled for every further one.
        connections: at the same time.

    Raises:
        JobError: the URL is none.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = 60.0,
        pause: float = 0.5,
        connections: int = 1,
    ) -> None:
        self.url = _base(url)
        headers = {"user-agent": "promptmill", "content-type": "application/json"}
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            block=True,
            headers=headers,
            timeout=Timeout(connect=CONNECT_SECONDS, read=timeout),
        )
        self._timeout = timeout
        self._retry = Retry(
            connect=2,
            read=1,
            status=3,
            other=0,
            redirect=0,
            allowed_methods=None,
            status_forcelist=BUSY,
            backoff_factor=pause,
            backoff_max=MOST_WAIT_SECONDS,
            retry_after_max=MOST_WAIT_SECONDS,
            raise_on_status=False,
        )

    def facts(self, model: str | None) -> Facts:
        """Ask for the model's name, the context length and the release.

        Args:
            model: the name to use; None: the first that the server has.

        Raises:
            JobError: the server does not answer, wants a key, or serves no such model.
        """
        served = _served(self._get("/v1/models"))
        version = self._get("/version")
        names = [str(one["id"]) for one in served]
        if model is not None and names and model not in names:
            raise JobError(
                f"{self.url} serves no model {model}; it has {', '.join(names)}. Name one of them "
                "with --served-model."
            )
        chosen = next((one for one in served if model in (None, one["id"])), {})
        length = chosen.get("max_model_len")
        return Facts(
            model=model or (names[0] if names else None),
            max_model_len=length if isinstance(length, int) else None,
            version=str(version["version"]) if "version" in version else None,
        )

    def has(self, question: Question) -> bool:
        """Whether the server has this endpoint: it is asked once.

        Raises:
            JobError: see `facts`; the model's name is wrong.
            NoAnswer: it took too long.
        """
        answer = self._post(question)
        return not (isinstance(answer, Refusal) and answer.no_endpoint)

    def ask(self, question: Question, *, patient: bool = True) -> Answer | Refusal:
        """The ids of a prompt, or why there are none.

        Args:
            question: what to send.
            patient: a 500 is asked again, too: without it, it is an answer.

        Raises:
            JobError: the server is gone, wants a key, or is too busy.
            NoAnswer: it took too long, or answered with something else.
        """
        found = self._post(question, patient=patient)
        if isinstance(found, Refusal):
            return found
        one = found[0] if isinstance(found, list) and found else found
        try:
            return read_answer(one, whole=question.whole)
        except (KeyError, TypeError, ValueError):
            raise NoAnswer(f"{question.path} answered with something that is no prompt") from None

    def _post(self, question: Question, *, patient: bool = False) -> Json | Refusal:
        retry = self._retry
        if patient:
            retry = retry.new(status_forcelist=BUSY | {FAILED})
        body = json.dumps(question.body).encode()
        return self._request("POST", question.path, body, retry)

    def _get(self, path: str) -> JsonObject:
        """A description; empty where the server has none."""
        try:
            found = self._request("GET", path, None, self._retry)
        except NoAnswer as error:
            raise JobError(f"{self.url}: {error}.") from None
        return found if isinstance(found, dict) else {}

    def _request(self, method: str, path: str, body: bytes | None, retry: Retry) -> Json | Refusal:
        try:
            response = self._pool.request(
                method, self.url + path, body=body, retries=retry, redirect=False
            )
        except HTTPError as error:
            raise self._unreachable(path, error) from None
        text = response.data.decode("utf-8", "replace")
        if response.status == 200:
            try:
                found: Json = json.loads(text)
            except ValueError:
                raise NoAnswer(f"{path} answered with something that is no JSON") from None
            return found
        refusal = Refusal(response.status, read_message(text))
        self._check(path, refusal)
        return refusal

    def _check(self, path: str, refusal: Refusal) -> None:
        """Refusals that are the same for every row."""
        status, message = refusal.status, refusal.message
        if status in (401, 403):
            raise JobError(
                f"{self.url} wants another key ({status}). Put it into PROMPTMILL_API_KEY, or give "
                "--api-key."
            )
        if status == 404 and "model" in message.lower():
            raise JobError(f"{self.url}: {message} Name the model with --served-model.")
        if 300 <= status < 400:
            raise JobError(f"{self.url}{path} is somewhere else ({status}). Give that address.")
        if status in BUSY:
            raise JobError(
                f"{self.url}{path} answered {status} again and again: it is too busy or behind "
                "something that is. Try later, with a lower --connections."
            )

    def _unreachable(self, path: str, error: HTTPError) -> Exception:
        reason = error.reason if isinstance(error, MaxRetryError) else error
        if isinstance(reason, SSLError):
            return JobError(f"{self.url} has no certificate that can be trusted: {reason}")
        if isinstance(reason, NewConnectionError) or "ConnectTimeout" in type(reason).__name__:
            return JobError(f"No server answers at {self.url}. Check the address and that it runs.")
        if isinstance(reason, TimeoutError):
            return NoAnswer(f"{path} gave no answer in {self._timeout:g} s, twice")
        return NoAnswer(f"{path} broke off ({type(reason).__name__})")


def _base(url: str) -> str:
    try:
        parts = parse_url(url)
    except LocationParseError:
        parts = parse_url("")
    if parts.scheme not in ("http", "https") or not parts.host:
        raise JobError("--server wants a whole address, such as http://localhost:8000.")
    if parts.auth is not None:
        raise JobError("--server must hold no password: put a key into PROMPTMILL_API_KEY.")
    return f"{parts.scheme}://{parts.netloc}{(parts.path or '').rstrip('/').removesuffix('/v1')}"


def _served(models: JsonObject) -> list[JsonObject]:
    listed = models.get("data")
    found = listed if isinstance(listed, list) else []
    return [one for one in found if isinstance(one, dict) and isinstance(one.get("id"), str)]
