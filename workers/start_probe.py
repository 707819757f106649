"""The start-up probe of a job: its model, and its chat template as rows will meet it."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from promptmill.pipeline.model.probe import probe_model
from promptmill.pipeline.render.environment import TemplateEnvironment
from promptmill.pipeline.render.guard import GuardedRenderer
from promptmill.pipeline.render.load import load_renderer
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError, RowError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import ChatPrompt, Endpoint, Place, Request
from promptmill.workers.tuning import bound_memory

SAMPLE_SECONDS: Final = 1.0
"""For rendering a sample chat, which takes milliseconds; one that takes longer tells nothing."""
SAMPLE_MEMORY: Final = 256 << 20
"""Bytes that it may take: a template that ends workers must not end the driver."""


def probe_job(bundle: ModelBundle, options: JobOptions, clock: datetime) -> tuple[str, ...]:
    """What a look at the model and its template finds, to be said once before the work begins.

    A job without any template is fine here: it may have completions only.

    Args:
        bundle: the model.
        options: the job's, `chat_template` resolved to a text or a name.
        clock: what templates are told the time is.

    Raises:
        JobError: the ids of this model would be garbage, no renderer takes it, or Jinja cannot
            read the job's template.
    """
    plain = options.model_copy(update={"with_mask": False})  # a chat need not have a mask
    guard = GuardedRenderer(load_renderer(bundle, plain, clock), SAMPLE_SECONDS)

    def render(messages: list[JsonObject]) -> str:
        place, prompt = Place("probe", 0), ChatPrompt(messages)
        request = Request(custom_id="probe", place=place, endpoint=Endpoint.CHAT, prompt=prompt)
        with _bounded_memory():
            (made,) = guard.render_batch([request])
        if isinstance(made, RowError):
            raise made
        return made.text or ""

    given = options.chat_template
    template = None if given is None else bundle.chat_templates.get(given, given)
    if template is not None:
        try:
            TemplateEnvironment(clock).compile(template)
        except RowError as error:
            raise JobError(f"--chat-template cannot be used. {error.message}") from error
    return probe_model(bundle, render, template)


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Within it, this process may take `SAMPLE_MEMORY` more than it has."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    bound_memory(SAMPLE_MEMORY)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
