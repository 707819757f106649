"""What servers answer with: ids, offsets and media places, or an error."""

from __future__ import annotations

import json
from typing import Final

from promptmill.pipeline.verify.compare import Answer, Pair
from promptmill.pipeline.write.readback import StoredSpan
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.workers.visible import visible

_MESSAGE_CHARS: Final = 400


def read_answer(found: Json, *, whole: bool) -> Answer:
    """The ids of a render endpoint's answer, or (`whole`) of one of `/tokenize`.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    if not isinstance(found, dict):
        raise TypeError("no object")
    ids = found["tokens"] if whole and "tokens" in found else found["token_ids"]
    offsets, features = found.get("token_offsets"), found.get("features")
    return Answer(
        ids=_ids(ids),
        offsets=[_pair(one) for one in offsets] if isinstance(offsets, list) else None,
        spans=tuple(_spans(features)) if isinstance(features, dict) else (),
        whole=whole,
    )


def _ids(value: Json) -> list[int]:
    if not isinstance(value, list):
        raise TypeError("no list of ids")
    found = [item for item in value if isinstance(item, int)]
    if len(found) != len(value):
        raise TypeError("no list of ids")
    return found


def _pair(value: Json) -> Pair:
    start, end = _ids(value)
    return start, end


def _spans(features: JsonObject) -> list[StoredSpan]:
    places = features.get("mm_placeholders")
    found: list[StoredSpan] = []
    for modality, items in places.items() if isinstance(places, dict) else ():
        for one in items if isinstance(items, list) else ():
            if isinstance(one, dict):
                offset, length = _ids([one["offset"], one["length"]])
                span = StoredSpan(modality=modality, offset=offset, length=length, hash="")
                found.append(span)
    return found


def read_message(text: str) -> str:
    """What an error body says: vLLM's, FastAPI's, or the text itself."""
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if isinstance(body, dict):
        error = body.get("error", body)
        found = error.get("message") if isinstance(error, dict) else error
        text = str(found or body.get("message") or body.get("detail") or text)
    text = visible(" ".join(text.split()))
    return text if len(text) <= _MESSAGE_CHARS else text[:_MESSAGE_CHARS] + "..."
