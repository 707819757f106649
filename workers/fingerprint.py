"""What a job is: everything that decides the bytes of its output, and nothing else.

The same job may be continued, on other machines and with other workers; another one must not
write to the same folder. The parts are kept in `run.json`, so that a refusal can say what differs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version

from promptmill.pipeline.model.deepseek_tokens import is_deepseek
from promptmill.pipeline.render.deepseek import library_version
from promptmill.schemas import profile
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.schemas.run import RunRecord
from promptmill.schemas.shard import Plan

NOT_IN_THE_BYTES = frozenset(
    {
        "input",  # names, sizes and content are taken instead
        "output",
        "model",  # so is the content of the bundle
        "revision",
        "clock",  # only where a template asks for it
        "pack",  # an index over parts that are as they are
        "workers",
        "local",
        "address",
        "engine",
        "segment_cache",
        "render_timeout",
        "on_error",
        "max_rejects",
        "report_content",
    }
)
"""Options that may change between two starts of one job."""

LIBRARIES = ("promptmill", "tokenizers", "jinja2", "mistral-common", "pyarrow")
"""Their versions may change ids, text or the encoding of a part."""

OF_THE_MODEL = ("tokenizer", "chat template", "model config")
"""Parts of the fingerprint, as `model_identity` has them."""

MOST_DIFFERENCES = 20
"""Shown of two jobs."""

SHA256 = re.compile(r"[0-9a-f]{64}")

CLOCK_CALL = "strftime_now"
"""How a template asks for the time."""


def identity(plan: Plan, bundle: ModelBundle, options: JobOptions, clock: datetime) -> JsonObject:
    """The parts of the fingerprint.

    Args:
        plan: the cut input.
        bundle: the model.
        options: resolved: with the context length that applies.
        clock: what templates are told; counts only where one may ask.
    """
    chosen = options.model_dump(mode="json", exclude=set(NOT_IN_THE_BYTES))
    return {
        "rules": profile.NAME,
        "options": chosen,
        **model_identity(bundle),
        "clock": clock.isoformat() if clock_counts(bundle, options) else None,
        "versions": _versions(bundle),
        "input": [
            {"name": file.name, "size": file.size, "sha256": plan.content[file.name]}
            for file in plan.files
        ],
        "shards": len(plan.shards),
    }


def model_identity(bundle: ModelBundle) -> JsonObject:
    """What of the fingerprint comes from the model alone."""
    return {
        "tokenizer": bundle.sha256(),
        "chat template": bundle.sha256(templates=True),
        "model config": _sha256(_facts(bundle)),
    }


def _versions(bundle: ModelBundle) -> JsonObject:
    found: JsonObject = {name: version(name) for name in LIBRARIES}
    if is_deepseek(bundle.tokenizer_mode):
        found["deepseek-recipe"] = library_version()
    return found


def clock_counts(bundle: ModelBundle, options: JobOptions) -> bool:
    """Whether a template may ask for the time."""
    texts = (*bundle.chat_templates.values(), bundle.processor_template, options.chat_template)
    return options.trust_request_chat_template or any(CLOCK_CALL in t for t in texts if t)


def fingerprint(parts: JsonObject) -> str:
    """sha256 of the parts, hexadecimal."""
    return _sha256(parts)


def differences(old: object, new: object, path: str = "") -> Iterator[str]:
    """What differs between two identities, a line each, named as in `run.json`."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif path == "input" and isinstance(old, list) and isinstance(new, list):
        yield from _of_inputs(_by_name(old), _by_name(new))
    elif old != new:
        yield f"{path}: {_shown(old)} -> {_shown(new)}"


def _of_inputs(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"input.{name}: only {'there' if name in old else 'here'}"
        else:
            yield from differences(old[name], new[name], f"input.{name}")
    if list(old) != list(new) and old.keys() == new.keys():
        yield "input: the same files in another order"


def model_named(record: RunRecord, model: str, lines: Sequence[str]) -> list[str]:
    """The lines, after the names of the models where it is the model that differs."""
    of_model = any(line.startswith(f"{part}: ") for line in lines for part in OF_THE_MODEL)
    before = record.options.get("model")
    named = [f"model: {before} -> {model}"] if of_model and before != model else []
    return [*named, *lines]


def another_job(output: object, lines: Sequence[str]) -> JobError:
    """The refusal of an output folder whose run differs in `lines`."""
    shown = "".join(f"\n  {line}" for line in lines[:MOST_DIFFERENCES])
    more = f"\n  and {len(lines) - MOST_DIFFERENCES} more" if len(lines) > MOST_DIFFERENCES else ""
    return JobError(
        f"{output} belongs to another job, and nothing was touched. What differs "
        f"(there -> here):{shown}{more}\nName another output folder, or give the same options."
    )


def _by_name(files: list[object]) -> dict[str, object]:
    return {str(f.get("name")): f for f in files if isinstance(f, dict)}


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if SHA256.fullmatch(text):
        return text[:12]
    return text if len(text) <= 70 else f"{text[:12]}..."


def _facts(bundle: ModelBundle) -> JsonObject:
    """All of the bundle but tokenizer and templates, which are named on their own."""
    return {
        "facts": dataclasses.asdict(bundle.facts),
        "tokenizer_mode": bundle.tokenizer_mode,
        "config": bundle.config,
        "generation_config": bundle.generation_config,
        "processor_configs": dict(bundle.processor_configs),
        "model_vocab_size": bundle.model_vocab_size,
    }


def _sha256(value: JsonObject) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
