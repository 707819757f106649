"""Stop strings: where a server's answer would have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from promptmill.pipeline.decode.characters import TextStream
from promptmill.schemas.json_types import JsonObject


def find_stop(
    request: JsonObject, text: str, ids: Sequence[int], decode: Callable[[Sequence[int]], str]
) -> int | None:
    """How many characters of an answer stand before its stop string; None where it has none.

    As vLLM's detokenizer does: looked for after every id beyond `min_tokens`; of several that one
    id ends, the first of the list counts; `include_stop_str_in_output` leaves it in.

    Args:
        request: what the row asked for.
        text: the whole answer.
        ids: of the answer, all known.
        decode: ids to text.
    """
    stops = [stop for stop in stop_strings(request) if stop and stop in text]
    if not stops:
        return None
    included = request.get("include_stop_str_in_output") is True
    least = request.get("min_tokens")
    unchecked = least if isinstance(least, int) else 0
    stream, read = TextStream(decode), ""
    for count, token_id in enumerate(ids, 1):
        new = stream.push(token_id)
        read += new
        if count <= unchecked:
            continue
        for stop in stops:
            at = read.find(stop, max(0, len(read) - len(new) - len(stop) + 1))
            if at >= 0:
                return at + len(stop) if included else at
    return None


def stop_strings(request: JsonObject) -> list[str]:
    """Those that a row asked for."""
    given = request.get("stop")
    several = given if isinstance(given, list) else [given]
    return [stop for stop in several if isinstance(stop, str)]
