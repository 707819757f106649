"""Placeholders become media spans: the expand step of one row.

    items -> sizes (headers) -> matches (ids, left to right) -> replacements -> spans

Sizes come from `sizer.py`; what a size becomes, from the model's family.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from promptmill.pipeline.media.admit import check_counts, check_files, check_given, check_typed
from promptmill.pipeline.media.base import (
    INDEX,
    Family,
    MediaInfo,
    MediaKwargs,
    Replacement,
    Site,
    TextCodec,
)
from promptmill.pipeline.media.cut import cut_spans, lost_before_expansion
from promptmill.pipeline.media.fallback import Content, expand_as_text
from promptmill.pipeline.media.match import Match, match_ids, match_text
from promptmill.pipeline.media.sizer import MediaSizer, Sized
from promptmill.pipeline.media.splice import Expanded, append_id, collapse, join_all, splice
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import Json
from promptmill.schemas.media import MediaItem, MediaSpan, Modality
from promptmill.schemas.request import Ids, Mask, Offsets


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of a row, sized."""

    modality: Modality
    sized: Sized
    site: Site
    """Where it stands; the position is not yet known."""
    target: str


@dataclass(frozen=True, slots=True)
class Measured:
    """An item by itself."""

    info: MediaInfo
    tokens: int
    """Ids that it becomes, structure ids included."""
    grid: tuple[int, ...] | None


class Expander:
    """Expands the media of one model's prompts.

    Args:
        family: the model's rules.
        codec: the model's tokenizer.
        sizer: reads media and sizes them.
        supported: the modalities and how many items of each a prompt may have.
    """

    def __init__(
        self,
        family: Family,
        codec: TextCodec,
        sizer: MediaSizer,
        supported: Mapping[Modality, int],
    ) -> None:
        self.family = family
        self.supported = supported
        self._codec = codec
        self._sizer = sizer
        self._target_ids: dict[str, tuple[int, ...]] = {}

    def fetch(self, items: Iterable[MediaItem]) -> None:
        """Fetch what a batch has on hosts, several items at once; `expand` then waits for none."""
        self._sizer.fetch(items)

    def placeholder(self, modality: Modality, index: int) -> str | None:
        """What the chat layer inserts for an item; None: nothing.

        Args:
            modality: of the item.
            index: 0-based among the row's items of its modality.
        """
        rule = self.family.rules.get(modality)
        if rule is None or rule.placeholder is None:
            return None
        return rule.placeholder.replace(INDEX, str(index + 1))

    def check_items(self, items: Sequence[MediaItem]) -> None:
        """Hold the limits of the model and the job; raises RowError."""
        check_counts(items, self.supported)
        check_given(items)

    def check_typed(self, messages: Json, items: Sequence[MediaItem]) -> None:
        """Refuse placeholders typed in text; raises RowError PLACEHOLDER_IN_TEXT."""
        if not self.family.plain_text:
            targets = {modality: rule.target for modality, rule in self.family.rules.items()}
            check_typed(messages, items, targets)

    def cut_spans(
        self, spans: Sequence[MediaSpan], cut: slice | None, *, length: int, requested: int
    ) -> tuple[MediaSpan, ...]:
        """`cut.cut_spans`, where spans lie in the ids that are cut."""
        if self.family.in_encoder:
            return tuple(spans)
        return cut_spans(spans, cut, length=length, requested=requested)

    def expand(
        self,
        ids: Ids,
        offsets: Offsets | None,
        mask: Mask | None,
        items: Sequence[MediaItem],
        *,
        kwargs: MediaKwargs | None = None,
        truncated_to: int | None = None,
    ) -> Expanded:
        """A prompt with the placeholders of its items replaced.

        Args:
            ids: the prompt after the first cut.
            offsets: as long as `ids`, or shorter by padding.
            mask: likewise.
            items: in the order of their placeholders.
            kwargs: from `admit.row_kwargs`.
            truncated_to: the row's `truncate_prompt_tokens`, if the first cut took ids away.

        Raises:
            RowError: an item that cannot be read or that the model refuses; PLACEHOLDER_MISMATCH
                for an item without a placeholder, MEDIA_SPLIT if the first cut may have taken it.
        """
        row = Expanded(ids, offsets, mask)
        if not items:
            return row
        self.check_items(items)
        sized = self._sized(items, kwargs or MediaKwargs())
        if self.family.in_encoder:
            return replace(row, spans=tuple(self._spans_in_encoder(sized)))
        last_id = self.family.last_id
        if last_id is not None and row.ids[-1:].tolist() != [last_id]:
            row = append_id(row, last_id)
        made = self._expand_matches(row, sized)
        if isinstance(made, _Item):
            raise _missing(made, len(ids), truncated_to)
        return made

    def _expand_matches(self, row: Expanded, sized: Sequence[_Item]) -> Expanded | _Item:
        """The row expanded by ids, else by text; or the first item without a placeholder."""
        targets = [self._ids_of(item.modality, item.target) for item in sized]
        matches = match_ids(row.ids, targets)
        if len(matches) == len(sized):
            return self._expand_ids(row, matches, sized)
        if any(len(target) > 1 for target in targets):
            text = self._codec.decode(row.ids)
            matches = match_text(text, [item.target for item in sized])
            if len(matches) == len(sized):
                return self._expand_text(row, text, matches, sized)
        return sized[min(set(range(len(sized))) - {match.item for match in matches})]

    def measure(self, items: Sequence[MediaItem], kwargs: MediaKwargs) -> list[Measured | RowError]:
        """What each item of a row is and becomes, or why it cannot be read.

        Each by itself: limits of the row as a whole are not held. Where the count depends on the
        place in the prompt (DeepSeek V4's alignment), it is that of an item at its start.
        """
        found: list[Measured | RowError] = []
        for item, site in zip(items, _sites(items, kwargs), strict=True):
            try:
                (sized,) = self._sizer.sizes([item])
                check_files([sized.size], self.family.file_limits)
                made = self.family.expand(sized.info, site)
                found.append(Measured(sized.info, len(made.ids), made.grid))
            except RowError as error:
                found.append(error)
        return found

    def collapse(self, row: Expanded) -> Expanded:
        """A prompt with one placeholder an item again, for servers that expand by themselves."""
        if self.family.in_encoder:
            return row
        placeholders = [
            self._ids_of(s.modality, self._target(s.modality, s.index)) for s in row.spans
        ]
        return collapse(row, placeholders, self.family.joins)

    def _target(self, modality: Modality, index: int) -> str:
        return self.family.rules[modality].target.replace(INDEX, str(index + 1))

    def _sized(self, items: Sequence[MediaItem], kwargs: MediaKwargs) -> list[_Item]:
        """The items with their sizes."""
        found = self._sizer.sizes(items)
        check_files([size.size for size in found], self.family.file_limits)
        return [
            _Item(item.modality, size, site, self._target(item.modality, site.index))
            for item, size, site in zip(items, found, _sites(items, kwargs), strict=True)
        ]

    def _ids_of(self, modality: Modality, target: str) -> tuple[int, ...]:
        """Ids of a placeholder, encoded once."""
        given = self.family.rules[modality].target_ids
        if given is not None:
            return given
        if target not in self._target_ids:
            self._target_ids[target] = tuple(self._codec.encode(target)[0].tolist())
        return self._target_ids[target]

    def _expand_ids(
        self, row: Expanded, matches: Sequence[Match], sized: Sequence[_Item]
    ) -> Expanded:
        """Replacements put in place of their ids."""
        parts: list[tuple[Match, Replacement]] = []
        spans: list[MediaSpan] = []
        grown = 0
        for match in matches:
            item = sized[match.item]
            position = match.start + grown
            replacement = self.family.expand(item.sized.info, replace(item.site, position=position))
            parts.append((match, replacement))
            spans.append(_span(item, replacement, position))
            grown += len(replacement.ids) - (match.stop - match.start)
        expanded = replace(splice(row, parts), spans=tuple(spans))
        return expanded if self.family.joins is None else join_all(expanded, self.family.joins)

    def _expand_text(
        self, row: Expanded, text: str, matches: Sequence[Match], sized: Sequence[_Item]
    ) -> Expanded:
        """Replacements put in place of their text, everything tokenized again."""
        contents = [
            Content(item.modality, item.target, self.family.expand(item.sized.info, item.site))
            for item in sized
        ]
        expanded, places = expand_as_text(row, text, matches, contents, self._codec)
        spans = [_span(sized[p.item], contents[p.item].replacement, p.start) for p in places]
        return replace(expanded, spans=tuple(spans))

    def _spans_in_encoder(self, sized: Sequence[_Item]) -> Iterator[MediaSpan]:
        """Spans of the encoder's prompt, one item behind the other; the ids stay as they are."""
        offset = 0
        for item in sized:
            replacement = self.family.expand(item.sized.info, item.site)
            yield _span(item, replacement, offset)
            offset += len(replacement.ids)


def _sites(items: Sequence[MediaItem], kwargs: MediaKwargs) -> Iterator[Site]:
    """Where each item stands among those of its modality; positions are not yet known."""
    counts = Counter(item.modality for item in items)
    seen: Counter[Modality] = Counter()
    for item in items:
        index = seen[item.modality]
        seen[item.modality] += 1
        yield Site(index, counts[item.modality], 0, kwargs, item.detail)


def _span(item: _Item, replacement: Replacement, offset: int) -> MediaSpan:
    return MediaSpan(
        modality=item.modality,
        offset=offset,
        length=len(replacement.ids),
        index=item.site.index,
        hash=item.sized.hash,
        grid=replacement.grid,
        embed_runs=replacement.embed_runs(),
    )


def _missing(item: _Item, length: int, truncated_to: int | None) -> RowError:
    if truncated_to is not None:
        return lost_before_expansion(item.modality, item.site.index, length, truncated_to)
    return RowError(
        ErrorCode.PLACEHOLDER_MISMATCH,
        f"The prompt holds no placeholder {item.target} for {item.modality} number "
        f"{item.site.index} (counted from 0). The chat template must emit one for each media "
        "part, or the text of the row must hold it.",
        parameter=item.modality.value,
        stage=Stage.EXPAND,
    )
