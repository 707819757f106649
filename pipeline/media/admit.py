"""What a row may bring along: how many items, which arguments, and no typed placeholders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from promptmill.pipeline.media.base import INDEX, Family, FileLimits, MediaKwargs
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.media import MediaItem, Modality
from promptmill.schemas.options import JobOptions

_MEDIA_KEYS = frozenset({"image_url", "input_image", "input_audio", "audio_url", "video_url"})


def supported_modalities(family: Family, limits: Mapping[Modality, int]) -> dict[Modality, int]:
    """The modalities a model takes, and how many items of each a prompt may have.

    Args:
        family: the model's rules, with its own limits.
        limits: `--limit-mm-per-prompt`.
    """
    return {
        modality: min(
            limits.get(modality, profile.MEDIA_PER_PROMPT), rule.limit or profile.MEDIA_PER_PROMPT
        )
        for modality, rule in family.rules.items()
    }


def check_given(items: Sequence[MediaItem]) -> None:
    """Refuse items that only a server's cache would know.

    Raises:
        RowError: MEDIA_UNSUPPORTED.
    """
    seen: Counter[Modality] = Counter()
    for item in items:
        if item.data is None and item.url is None:
            raise RowError(
                ErrorCode.MEDIA_UNSUPPORTED,
                f"The {item.modality} at index {seen[item.modality]} has a uuid and no data. Only "
                "a server that holds it in its cache can know it: give its data.",
                parameter=item.modality.value,
            )
        seen[item.modality] += 1


def check_counts(items: Sequence[MediaItem], supported: Mapping[Modality, int]) -> None:
    """Hold the limits, in the order of the items, as the server counts while it parses.

    Raises:
        RowError: MEDIA_UNSUPPORTED or MEDIA_LIMIT; the parameter is the modality.
    """
    seen: Counter[Modality] = Counter()
    for item in items:
        limit = supported.get(item.modality, 0)
        seen[item.modality] += 1
        if seen[item.modality] > limit:
            known = item.modality in supported
            more = "Raise --limit-mm-per-prompt if the model can take more."
            none = f"This model takes no {item.modality} input."
            raise RowError(
                ErrorCode.MEDIA_LIMIT if known else ErrorCode.MEDIA_UNSUPPORTED,
                f"At most {limit} {item.modality}(s) may be provided in one prompt. "
                f"{more if known else none}",
                parameter=item.modality.value,
            )


def check_files(sizes: Sequence[int], limits: FileLimits | None) -> None:
    """Hold the model's limits of file sizes, given in bytes.

    Raises:
        RowError: MEDIA_LIMIT.
    """
    if limits is None:
        return
    for what, found, most in (
        ("A media file has", max(sizes, default=0), limits.each),
        ("The media files of the row have", sum(sizes), limits.together),
    ):
        if found > most:
            raise RowError(
                ErrorCode.MEDIA_LIMIT,
                f"{what} {found} bytes, and this model takes at most {most}. Use smaller or fewer "
                "files.",
                value=found,
                stage=Stage.EXPAND,
            )


def row_kwargs(
    options: JobOptions, processor: JsonObject | None, loader: JsonObject | None
) -> MediaKwargs:
    """The processor's and the loader's arguments for a row: its own over the job's.

    Args:
        options: the job's arguments, and whether rows may bring theirs.
        processor: the row's `mm_processor_kwargs`.
        loader: the row's `media_io_kwargs`.

    Raises:
        RowError: UNSUPPORTED_REQUEST where rows may not.
    """
    for name, given in (("mm_processor_kwargs", processor), ("media_io_kwargs", loader)):
        if given and not options.trust_request_mm_kwargs:
            raise RowError(
                ErrorCode.UNSUPPORTED_REQUEST,
                f"Per-request {name} are off because they can change how much work a row is. "
                "Give --trust-request-mm-kwargs if you trust the rows.",
                parameter=name,
            )
    return MediaKwargs({**options.mm_processor_kwargs, **(processor or {})}, loader or {})


def check_typed(
    messages: Json, items: Sequence[MediaItem], targets: Mapping[Modality, str]
) -> None:
    """Refuse a placeholder that stands in the text of a row with media of its modality.

    The server would bind the item to it and leave the template's own placeholder unexpanded.

    Args:
        messages: messages (and tools) as JSON; what media parts carry is not looked at.
        items: the row's media.
        targets: by modality, what is replaced.

    Raises:
        RowError: PLACEHOLDER_IN_TEXT.
    """
    counts = Counter(item.modality for item in items)
    wanted = {
        target.replace(INDEX, str(number)): modality
        for modality, target in targets.items()
        for number in range(1, counts[modality] + 1)
        if target
    }
    if not wanted:
        return
    for text in _texts(messages):
        for target, modality in wanted.items():
            if target in text:
                raise RowError(
                    ErrorCode.PLACEHOLDER_IN_TEXT,
                    f"The text holds the {modality} placeholder {target}, and the row has "
                    f"{modality} input that would be bound to it. Remove it from the text: the "
                    "placeholder is inserted where the media part stands.",
                    parameter="messages",
                )


def _texts(value: Json) -> Iterator[str]:
    """Every string in a JSON value but those of media parts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _MEDIA_KEYS:
                yield from _texts(item)
