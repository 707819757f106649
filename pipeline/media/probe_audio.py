"""Sounds from their headers: samples, rate, channels."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from promptmill.pipeline.media.base import AudioInfo, unreadable
from promptmill.pipeline.media.extra import need_av, need_soundfile
from promptmill.pipeline.media.structure import check_whole
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.media import Modality

if TYPE_CHECKING:
    from soundfile import SoundFile

_BLOCK = 1 << 16


def probe_audio(data: bytes, *, decode: bool = False) -> AudioInfo:
    """Length of a sound, by soundfile, else (as for AAC) by PyAV.

    Args:
        data: the file; of a video, its sound.
        decode: decode all of it (`--check-media`).

    Raises:
        RowError: MEDIA_UNREADABLE; MEDIA_LIMIT for a longer one than the server decodes.
    """
    check_whole(data, Modality.AUDIO)
    soundfile = need_soundfile()
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as sound:
            return _checked(_header(sound, decode))
    except soundfile.LibsndfileError:
        return _checked(_decoded(data))


def _header(sound: SoundFile, decode: bool) -> AudioInfo:
    """What the header says, and that the file reaches that far."""
    info = AudioInfo(sound.frames, sound.samplerate, sound.channels)
    if decode or sound.format == "MP3":  # the length in an MP3's header is an estimate
        most = profile.AUDIO_MAX_SECONDS * sound.samplerate
        read = 0
        while read <= most and (block := len(sound.read(_BLOCK, dtype="float32"))):
            read += block
        return AudioInfo(read, info.rate, info.channels)
    if info.samples:
        sound.seek(info.samples - 1)
        if len(sound.read(1)) != 1:
            raise unreadable(Modality.AUDIO, "the file is cut short")
    return info


def _decoded(data: bytes) -> AudioInfo:
    """What decoding gives, for kinds whose header does not tell exactly."""
    av = need_av()
    try:
        with av.open(io.BytesIO(data)) as container:
            if not container.streams.audio:
                raise unreadable(Modality.AUDIO, "there is no audio stream in it")
            stream = container.streams.audio[0]
            most = profile.AUDIO_MAX_SECONDS * stream.rate
            samples = 0
            for frame in container.decode(stream):
                samples += frame.samples
                if samples > most:
                    break
            return AudioInfo(samples, stream.rate, stream.channels)
    except av.error.FFmpegError:
        raise unreadable(Modality.AUDIO, "its content is no sound the server opens") from None


def _checked(info: AudioInfo) -> AudioInfo:
    seconds, decoded = profile.AUDIO_MAX_SECONDS, profile.AUDIO_DECODE_BYTES
    if info.samples > seconds * info.rate or 4 * info.samples * info.channels > decoded:
        raise RowError(
            ErrorCode.MEDIA_LIMIT,
            f"The audio is longer than the {seconds} seconds, or the {decoded} bytes of decoded "
            "samples, that the server takes. Cut it into pieces, or resample it.",
            parameter=Modality.AUDIO.value,
            stage=Stage.EXPAND,
        )
    if not info.samples:
        raise unreadable(Modality.AUDIO, "it has no samples")
    return info
