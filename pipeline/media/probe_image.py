"""Images from their headers: size after EXIF orientation, nothing decoded.

Profile rule (vLLM 0.33.0, `multimodal/media/image.py`).
"""

from __future__ import annotations

import io
import re
import warnings
from typing import Final

from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from promptmill.pipeline.media.base import ImageInfo, unreadable
from promptmill.pipeline.media.structure import check_whole, png_chunks
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.media import Modality

# fmt: off
FORMATS: Final = (
    "JPEG", "PNG", "WEBP", "GIF", "AVIF", "BLP", "BMP", "CUR", "DCX", "DDS", "DIB", "FITS", "FLI",
    "FTEX", "GBR", "ICNS", "ICO", "IM", "IMT", "IPTC", "JPEG2000", "MCIDAS", "MSP", "PCD", "PCX",
    "PIXAR", "PPM", "PSD", "QOI", "SGI", "SPIDER", "SUN", "TGA", "TIFF", "XBM", "XPM", "XVTHUMB",
)
# fmt: on
"""Profile rule: the formats the server opens. The content decides, not a media type.

Pillow tries them in this order: the usual ones first.
"""

_SWAPPING = frozenset({5, 6, 7, 8})
"""EXIF orientations under which width and height change places."""

_ICONS = frozenset({"ICO", "ICNS", "CUR"})
"""Containers whose directory may give another size than the image in them has."""

_ENDED = frozenset({"JPEG", "MPO", "PNG", "GIF", "WEBP", "AVIF", "JPEG2000"})
"""Formats whose end `cut_short` has looked for."""

_LATE_ORIENTATION = (b"Raw profile type exif\0", b"XML:com.adobe.xmp\0")
"""PNG text chunks that may hold an orientation."""


def probe_image(data: bytes, *, decode: bool = False) -> ImageInfo:
    """Size of an image; of an animated one, of its first frame.

    Args:
        data: the file.
        decode: decode the pixels as well (`--check-media`).

    Raises:
        RowError: MEDIA_UNREADABLE; MEDIA_LIMIT for more pixels than the server decodes.
    """
    check_whole(data, Modality.IMAGE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of sizes and tags that are judged here
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                return _info(image, data, decode)
        except RowError:
            raise
        except Image.DecompressionBombError as error:
            found = re.search(r"\((\d+) pixels\)", str(error))
            raise _too_many_pixels(found[1] if found else "too many") from None
        except UnidentifiedImageError:
            raise unreadable(Modality.IMAGE, "its content is no image the server opens") from None
        except Exception as error:  # Pillow's plugins raise nearly anything on broken files
            raise unreadable(Modality.IMAGE, f"{type(error).__name__} in its header") from error


def _info(image: Image.Image, data: bytes, decode: bool) -> ImageInfo:
    width, height = image.size
    if width * height > profile.MEDIA_MAX_PIXELS:
        raise _too_many_pixels(str(width * height))
    _check_extent(image, len(data))
    if decode or image.format in _ICONS or (image.format == "PNG" and _orientation_is_late(data)):
        image.load()
    width, height = image.size
    rotated = _orientation(image) in _SWAPPING
    size = (height, width) if rotated else (width, height)
    return ImageInfo(*size, rotated, image.format or "")


def _orientation(image: Image.Image) -> int:
    """The orientation that is still to be applied to `image.size`."""
    if image.format == "TIFF" and ExifTags.Base.Orientation in getattr(image, "tag_v2", {}):
        return 1  # Pillow has applied it to the size
    # Not image.getexif(): for a PNG without EXIF that decodes the pixels.
    orientation = Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1)
    return orientation if isinstance(orientation, int) else 1


def _orientation_is_late(data: bytes) -> bool:
    """Whether a PNG may give its orientation behind its pixels, where only loading finds it."""
    pixels_seen = False
    for kind, start, _ in png_chunks(data):
        pixels_seen = pixels_seen or kind == b"IDAT"
        if pixels_seen and (
            kind == b"eXIf" or data[start : start + 22].startswith(_LATE_ORIENTATION)
        ):
            return True
    return False


def _check_extent(image: Image.Image, length: int) -> None:
    """Refuse pixels that reach beyond the file, where the header tells how far they reach."""
    if image.format in _ENDED:
        return
    ends = [tile.offset + _raw_bytes(tile) for tile in getattr(image, "tile", [])]
    tags = getattr(image, "tag_v2", {})
    for offsets, counts in ((273, 279), (324, 325)):  # TIFF strips and tiles
        places = zip(tags.get(offsets, ()), tags.get(counts, ()), strict=False)
        ends += [offset + count for offset, count in places]
    if max(ends, default=0) > length:
        raise unreadable(Modality.IMAGE, "the file is cut short (its pixels reach beyond its end)")


def _raw_bytes(tile: ImageFile._Tile) -> int:
    """Bytes of an uncompressed tile; 0 where its layout does not tell."""
    if tile.codec_name != "raw" or tile.extents is None:
        return 0
    args = tile.args if isinstance(tile.args, tuple) else (tile.args,)
    mode, stride = (*args, 0)[:2]
    left, top, right, bottom = tile.extents
    if isinstance(stride, int) and stride > 0:
        return stride * (bottom - top)
    whole_bytes = isinstance(mode, str) and set(mode) <= set("RGBAXLCMYK")
    return (right - left) * (bottom - top) * len(str(mode)) if whole_bytes else 0


def _too_many_pixels(pixels: str) -> RowError:
    return RowError(
        ErrorCode.MEDIA_LIMIT,
        f"The image has {pixels} pixels, and the server decodes {profile.MEDIA_MAX_PIXELS} at "
        "most. Scale it down.",
        parameter="image",
        stage=Stage.EXPAND,
    )
