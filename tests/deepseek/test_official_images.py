"""Images of V4.1 are sized, limited and expanded as the official library does it."""

import io
import random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from promptmill.pipeline.media.admit import check_files
from promptmill.pipeline.media.base import ImageInfo, MediaKwargs, Site
from promptmill.pipeline.media.families.deepseek_v41 import (
    FILE_LIMITS,
    LONGEST_SIDE,
    MOST_IMAGES,
    expand_image,
    resized,
)
from promptmill.pipeline.media.probe_image import probe_image
from promptmill.pipeline.model.deepseek_tokens import IMAGE_ID
from promptmill.schemas.errors import ErrorCode, RowError

SIDES = st.integers(1, 3000) | st.integers(1, LONGEST_SIDE) | st.integers(1, 40)


def encoded(size: tuple[int, int], kind: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size).save(out, kind, **options)
    return out.getvalue()


def length(data: bytes, detail: str = "high") -> int:
    return len(expand_image(probe_image(data), Site(detail=detail)).ids)


def their_size(library: ModuleType, data: bytes, detail: str = "high") -> tuple[int, int]:
    resolver = library.ImageResolver(
        library.ReqwestImageFetcher(), library.OpenCvImagePreprocessor()
    )
    source = library.BytesImageSource(data, detail)
    (image,) = resolver.resolve([source], library.ImageQuota()).images
    return image.width, image.height


def their_length(library: ModuleType, width: int, height: int) -> int:
    image = library.ImageInfo(b"", width, height)
    return 1 + int(library.MultiModalData([image]).image_token_adjustment())


@given(width=SIDES, height=SIDES)
def test_counts_of_resized_images_are_the_library_s(
    library: ModuleType, width: int, height: int
) -> None:
    size = resized(width, height)
    assert resized(*size) == size
    found = expand_image(ImageInfo(width, height, format="PNG"), Site())
    assert set(found.ids.tolist()) == {IMAGE_ID}
    assert not found.embed_runs()
    assert len(found.ids) == their_length(library, *size)


def test_sizes_are_the_library_s(library: ModuleType) -> None:
    choice = random.Random(7)
    sizes = [(1, 1), (6, 547), (547, 6), (1138, 1), (8192, 20), (20, 8192), (512, 513), (640, 480)]
    sizes += [(choice.randint(1, 900), choice.randint(1, 900)) for _ in range(6)]
    sizes += [(choice.randint(1, 30), choice.randint(900, 8192)) for _ in range(6)]
    for size in sizes:
        data = encoded(size)
        assert resized(*size) == their_size(library, data), size
        low = their_size(library, data, "low")
        assert length(data, "low") == their_length(library, *low), size


def test_orientation_is_not_applied(library: ModuleType) -> None:
    exif = Image.Exif()
    exif[0x112] = 6
    turned = encoded((640, 300), "JPEG", exif=exif)
    assert probe_image(turned).rotated
    assert length(turned) == length(encoded((640, 300)))
    assert length(turned) == their_length(library, *their_size(library, turned))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_formats_of_the_library(library: ModuleType, kind: str) -> None:
    data = encoded((300, 200), kind)
    assert length(data) == their_length(library, *their_size(library, data))


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (encoded((30, 20), "BMP"), "BMP is none of"),
        (encoded((30, 20), "TIFF"), "TIFF is none of"),
        (encoded((LONGEST_SIDE + 1, 1)), "side over 8192"),
        (encoded((1, LONGEST_SIDE + 1)), "side over 8192"),
    ],
)
def test_what_the_library_refuses(library: ModuleType, data: bytes, part: str) -> None:
    with pytest.raises(library.ImageError):
        their_size(library, data)
    with pytest.raises(RowError, match=part) as caught:
        length(data)
    assert caught.value.code is ErrorCode.MEDIA_UNSUPPORTED


def test_limits_of_files_and_arguments() -> None:
    check_files([FILE_LIMITS.each] * 2, FILE_LIMITS)
    for sizes in ([FILE_LIMITS.each + 1], [FILE_LIMITS.each, FILE_LIMITS.each, 1]):
        with pytest.raises(RowError) as caught:
            check_files(sizes, FILE_LIMITS)
        assert caught.value.code is ErrorCode.MEDIA_LIMIT
    assert MOST_IMAGES == 600
    site = Site(kwargs=MediaKwargs({"max_pixels": 5}))
    with pytest.raises(RowError, match="max_pixels"):
        expand_image(ImageInfo(3, 2, format="PNG"), site)
