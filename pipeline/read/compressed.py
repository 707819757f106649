"""Compressed files as a stream of bytes, to the last byte that is sound."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol

import zstandard

from promptmill.pipeline.read.files import HashedFile, blocks
from promptmill.pipeline.read.lines import BLOCK_BYTES, BrokenStreamError
from promptmill.schemas.shard import InputCompression


class _Decoder(Protocol):
    """One gzip member or zstd frame, as zlib's and zstandard's decompression objects are."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Codec:
    decoder: Callable[[], _Decoder]
    error: type[Exception]
    step: int
    """Stored bytes per call: bounds what one call may give (1,000 times as much for gzip, 32,000
    times for zstd)."""
    magic: tuple[bytes, ...]
    """How a file may start."""
    filler: bytes
    """What may stand after a member without being one."""


_LARGEST_WINDOW: Final = 1 << 31
"""What `zstd --long=31` writes; the library's own limit is 128 MB."""


def _zstd_decoder() -> _Decoder:
    decoder: _Decoder = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompressobj()
    return decoder


_CODECS: Final = {
    InputCompression.GZIP: _Codec(
        decoder=lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS),
        error=zlib.error,
        step=1 << 14,
        magic=(b"\x1f\x8b",),
        filler=b"\0",
    ),
    InputCompression.ZSTD: _Codec(
        decoder=_zstd_decoder,
        error=zstandard.ZstdError,
        step=1 << 10,
        magic=(b"\x28\xb5\x2f\xfd", *(bytes((0x50 + n,)) + b"\x2a\x4d\x18" for n in range(16))),
        filler=b"",
    ),
}


def has_magic(start: bytes, compression: InputCompression) -> bool:
    """Whether a file that starts so can be of this compression at all."""
    return start.startswith(_CODECS[compression].magic)


def decompressed(
    file: HashedFile, compression: InputCompression, reopen: Callable[[], BinaryIO]
) -> Iterator[bytes]:
    """The content of a compressed file, all members one after the other.

    The file is read to its end even where it breaks, so that its hash is that of the whole file.

    Args:
        file: at its start.
        compression: gzip or zstd.
        reopen: opens the same file again, to get at the last sound bytes before a break.

    Raises:
        BrokenStreamError: after everything that could be decoded. Wrong bytes that only a
            checksum can tell are noticed at the end of their member, after they were given.
    """
    codec = _CODECS[compression]
    members = _Members(codec)
    for chunk in blocks(file, codec.step):
        try:
            yield from members.decode(chunk)
        except codec.error as error:
            yield from _before_break(codec, reopen, members.start, members.at)
            for _ in blocks(file, BLOCK_BYTES):
                pass
            raise BrokenStreamError(f"the {compression} data is corrupt ({error})") from error
    if members.decoder is not None:
        raise BrokenStreamError(f"the {compression} data ends too early, at byte {members.at}")


class _Members:
    """The members of a file, decoded one after the other."""

    def __init__(self, codec: _Codec) -> None:
        self._codec = codec
        self.decoder: _Decoder | None = None
        """Of the member that is not finished."""
        self.start = 0
        """Where that member starts in the stored file."""
        self.at = 0
        """Stored bytes that are decoded."""

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """What the next stored bytes give, in blocks of at most BLOCK_BYTES."""
        while chunk:
            if self.decoder is None:
                rest = chunk.lstrip(self._codec.filler) if self.at else chunk
                self.at += len(chunk) - len(rest)
                if not rest:
                    return
                chunk, self.start, self.decoder = rest, self.at, self._codec.decoder()
            out = self.decoder.decompress(chunk)
            rest = self.decoder.unused_data if self.decoder.eof else b""
            self.at += len(chunk) - len(rest)
            if self.decoder.eof:
                self.decoder = None
            chunk = rest
            for start in range(0, len(out), BLOCK_BYTES):
                yield out[start : start + BLOCK_BYTES]


def _before_break(
    codec: _Codec, reopen: Callable[[], BinaryIO], start: int, at: int
) -> Iterator[bytes]:
    """What the step that failed gives before the byte that fails it.

    A decoder that fails keeps what it decoded in that call. So the member is decoded once more up
    to there, in the same steps, and then byte by byte.

    Args:
        codec: of the file.
        reopen: opens it again.
        start: where the member starts, in stored bytes.
        at: where the failed step starts.
    """
    with reopen() as file:
        file.seek(start)
        decoder = codec.decoder()
        while start < at:
            piece = file.read(codec.step - start % codec.step)
            decoder.decompress(piece)
            start += len(piece)
        for byte in blocks(file, 1, codec.step):
            try:
                out = decoder.decompress(byte)
            except codec.error:
                return
            if out:
                yield out
