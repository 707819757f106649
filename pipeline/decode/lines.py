"""Answers as lines of an OpenAI batch's output file."""

from __future__ import annotations

import hashlib

from promptmill.pipeline.decode.base import Reply
from promptmill.schemas.errors import RowError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.reject import status_code


def reply_line(custom_id: str, reply: Reply, turn: int = 0) -> JsonObject:
    """The line of an answer; `warnings`, beside OpenAI's keys, only where there are any.

    Args:
        custom_id: the row's.
        reply: the answer.
        turn: how many answers to the same row came before: each line has an id of its own.
    """
    line = _line(custom_id, turn, 200, reply.body)
    return {**line, "warnings": [*reply.warnings]} if reply.warnings else line


def error_line(custom_id: str, error: RowError, turn: int = 0) -> JsonObject:
    """The line of an output that cannot be read; see `reply_line`."""
    told: JsonObject = {
        "message": error.message,
        "type": "invalid_request_error",
        "param": error.parameter,
        "code": error.code,
    }
    body: JsonObject = {"error": told}
    return {**_line(custom_id, turn, status_code(error.code), body), "error": told}


def _line(custom_id: str, turn: int, status: int, body: JsonObject) -> JsonObject:
    named = f"{custom_id}\0{turn}" if turn else custom_id
    number = hashlib.sha256(named.encode()).hexdigest()[:24]
    return {
        "id": f"batch_req_{number}",
        "custom_id": custom_id,
        "response": {"status_code": status, "request_id": f"req_{number}", "body": body},
        "error": None,
    }
