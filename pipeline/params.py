"""TokenizeParams: the budget and truncation rules of one prompt, field for field as served.

Profile rule (vLLM 0.33.0, `renderers/params.py`). Lengths of text are code points, lengths of
prompts are ids.
"""

from __future__ import annotations

from typing import Final, TypedDict

import msgspec

from promptmill.schemas.errors import ErrorCode, RowError

TRUNCATE: Final = (
    "ask for a truncation (truncate_prompt_tokens: the context less the output that you want)"
)
"""The way out of prompts that are too long: -1 would leave a single id for output."""


class EncodeKwargs(TypedDict, total=False):
    """What the server hands to the tokenizer call."""

    truncation: bool
    max_length: int | None
    add_special_tokens: bool


class TokenizeParams(msgspec.Struct, frozen=True, kw_only=True):
    """How one prompt is cut, padded and checked."""

    max_total_tokens: int | None
    """Context length; None: no limit at all."""
    max_output_tokens: int | None = 0
    """Output the row asks for; None: no explicit limit; 0: nothing is generated."""
    pad_prompt_tokens: int | None = None
    """Pad to this many ids; negative: to the context length."""
    truncate_prompt_tokens: int | None = None
    """Keep this many ids; any negative: as many as the context leaves."""
    truncation_side: str | None = None
    """"left" or "right"; None: the tokenizer's own side, counting the special tokens it adds."""
    do_lower_case: bool = False
    add_special_tokens: bool = True
    return_token_offsets: bool = False
    needs_detokenization: bool = False
    """Decode the kept ids where the prompt came without text."""
    max_total_tokens_param: str = "max_total_tokens"
    max_output_tokens_param: str = "max_output_tokens"
    truncate_prompt_tokens_param: str = "truncate_prompt_tokens"
    """The names by which messages call the three limits."""

    def __post_init__(self) -> None:
        total, output, keep = (
            self.max_total_tokens,
            self.max_output_tokens,
            self.truncate_prompt_tokens,
        )
        if self.truncation_side not in (None, "left", "right"):
            raise RowError(
                ErrorCode.INVALID_BUDGET,
                f"truncation_side={self.truncation_side!r} must be either 'left' or 'right'.",
                parameter="truncation_side",
                value=self.truncation_side,
            )
        if total is not None and output is not None and output > total:
            raise RowError(
                ErrorCode.INVALID_BUDGET,
                f"{self.max_output_tokens_param}={output} cannot be greater than "
                f"{self.max_total_tokens_param}={total}. Please request fewer output tokens.",
                parameter=self.max_output_tokens_param,
                value=output,
            )
        if total is not None and keep is not None and keep > total:
            raise RowError(
                ErrorCode.INVALID_BUDGET,
                f"{self.truncate_prompt_tokens_param}={keep} cannot be greater than "
                f"{self.max_total_tokens_param} = {total}. "
                "Please request a smaller truncation size.",
                parameter=self.truncate_prompt_tokens_param,
                value=keep,
            )

    @property
    def max_input_tokens(self) -> int | None:
        """Ids a prompt may have. Output is not subtracted: the engine settles that."""
        return self.max_total_tokens

    @property
    def max_truncation_tokens(self) -> int | None:
        """What a negative `truncate_prompt_tokens` keeps: one id less where output is wanted."""
        if self.max_input_tokens is None or self.max_output_tokens == 0:
            return self.max_input_tokens
        return max(0, self.max_input_tokens - 1)

    @property
    def kept_tokens(self) -> int | None:
        """`truncate_prompt_tokens` with negative values resolved; None: no truncation."""
        keep = self.truncate_prompt_tokens
        return self.max_truncation_tokens if keep is not None and keep < 0 else keep

    def with_kwargs(self, **kwargs: int | str | bool | None) -> TokenizeParams:
        """The same with Hugging Face style tokenizer arguments applied.

        As served: `padding=False` and `truncation=False` change nothing, an explicit `max_length`
        rewrites the output budget, and the result forgets `return_token_offsets` and the three
        message names. Unknown names are ignored.
        """
        max_length = _int_or_none(kwargs.get("max_length", self.max_input_tokens))
        output = self.max_output_tokens
        if "max_length" in kwargs and max_length is not None and self.max_total_tokens is not None:
            output = self.max_total_tokens - max_length
        pad = _int_or_none(kwargs.get("pad_prompt_tokens", self.pad_prompt_tokens))
        keep = _int_or_none(kwargs.get("truncate_prompt_tokens", self.truncate_prompt_tokens))
        if kwargs.get("padding") == "max_length":
            pad = max_length
        elif kwargs.get("padding") == "do_not_pad":
            pad = None
        if kwargs.get("truncation") is True or kwargs.get("truncation") == "longest_first":
            keep = max_length
        elif kwargs.get("truncation") == "do_not_truncate":
            keep = None
        side = kwargs.get("truncation_side", self.truncation_side)
        return TokenizeParams(
            max_total_tokens=self.max_total_tokens,
            max_output_tokens=output,
            pad_prompt_tokens=pad,
            truncate_prompt_tokens=keep,
            truncation_side=side if side is None else str(side),
            do_lower_case=bool(kwargs.get("do_lower_case", self.do_lower_case)),
            add_special_tokens=bool(kwargs.get("add_special_tokens", self.add_special_tokens)),
            needs_detokenization=bool(
                kwargs.get("needs_detokenization", self.needs_detokenization)
            ),
        )

    def encode_kwargs(self) -> EncodeKwargs:
        """The arguments of the server's tokenizer call."""
        keep = self.truncate_prompt_tokens
        if self.truncation_side is not None and keep is not None:
            return {"truncation": False, "add_special_tokens": self.add_special_tokens}
        limit = self.tokenizer_limit
        return {
            "truncation": limit is not None,
            "max_length": limit,
            "add_special_tokens": self.add_special_tokens,
        }

    @property
    def tokenizer_limit(self) -> int | None:
        """Ids at which the tokenizer itself stops, the special tokens it adds counted.

        None where an explicit side leaves the cut to the slice, or nothing limits.
        """
        if self.truncate_prompt_tokens is not None:
            return None if self.truncation_side is not None else self.kept_tokens
        return None if self.max_input_tokens is None else self.max_input_tokens + 1

    def fit_text(self, text: str, max_chars_per_token: int | None) -> tuple[str, int]:
        """The character gate, before tokenizing: the text to tokenize and the offset shift.

        Args:
            text: the rendered text.
            max_chars_per_token: from the tokenizer; None: no tokenizer, no gate.

        Returns:
            The text, cut where both a truncation and a side are given and lower-cased after that;
            and the code points to add to every offset pair except (0, 0).

        Raises:
            RowError: longer than the bound with no truncation to cut it (`input_text`).
        """
        shift = 0
        if self.max_input_tokens is not None and max_chars_per_token is not None:
            bound = self.max_input_tokens * max_chars_per_token
            if len(text) > bound:
                if self.truncate_prompt_tokens is None:
                    raise self._text_too_long(len(text), bound)
                if self.truncation_side == "left":
                    # A bound of 0 keeps the whole text, as the server's text[-0:] does.
                    shift = len(text) - bound if bound else 0
                    text = text[shift:]
                elif self.truncation_side == "right":
                    text = text[:bound]
        return (text.lower() if self.do_lower_case else text), shift

    def truncation_slice(self, length: int, tokenizer_side: str | None) -> slice | None:
        """The one slice for everything that runs parallel to `length` ids; None: no cut."""
        keep = self.kept_tokens
        if keep is None or keep >= length:
            return None
        if keep == 0:
            return slice(0, 0)
        side = self.truncation_side or tokenizer_side or "right"
        return slice(length - keep, length) if side == "left" else slice(0, keep)

    def padding(self, length: int) -> int:
        """How many pad ids to append on the right."""
        pad = self.pad_prompt_tokens
        if pad is not None and pad < 0:
            pad = self.max_input_tokens
        return 0 if pad is None else max(0, pad - length)

    def check_length(self, length: int) -> None:
        """Refuse a prompt over the context length.

        Raises:
            RowError: `input_tokens`; "at least" where the tokenizer would have stopped counting.
        """
        limit = self.max_input_tokens
        if limit is None or length <= limit:
            return
        least = "at least " if length == limit + 1 else ""
        raise RowError(
            ErrorCode.PROMPT_TOO_LONG,
            f"This model's maximum context length is {self.max_total_tokens} tokens. However, "
            f"your prompt contains {least}{length} input tokens, which exceeds this limit even "
            f"without any output tokens. Please reduce the length of the input prompt, {TRUNCATE} "
            "or raise --max-model-len.",
            parameter="input_tokens",
            value=length,
        )

    def _text_too_long(self, length: int, bound: int) -> RowError:
        return RowError(
            ErrorCode.PROMPT_TOO_LONG,
            f"This model's maximum context length is {self.max_total_tokens} tokens. However, "
            f"your prompt contains {length} characters (more than {bound} characters, which is "
            f"the upper bound for {self.max_input_tokens} input tokens). Please reduce the length "
            f"of the input prompt, {TRUNCATE} or raise --max-model-len.",
            parameter="input_text",
            value=length,
        )


def _int_or_none(value: int | str | bool | None) -> int | None:
    return None if value is None else int(value)
