import base64
import io
import itertools
import struct
import subprocess
import sys
import zlib
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from whitedwarf.conversation.content import BytesImage, DataUrlImage, ImageDetail, UrlImage
from whitedwarf.errors import ImageError, RequestError
from whitedwarf.prompt.images import PreparedImage, prepared_images, prompt_adjustment

UNSUPPORTED = (
    "You have uploaded an unsupported image. Please make sure your image is valid and has one of the following"
)
RED, WHITE, GREY = (255, 0, 0), (255, 255, 255), (127, 127, 127)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def prepared(data: bytes, detail: ImageDetail = ImageDetail.HIGH) -> PreparedImage:
    (image,) = prepared_images([BytesImage(data, detail, "here")])
    assert len(image.pixels) == 3 * image.width * image.height
    return image


def pixel(image: PreparedImage, x: int, y: int) -> tuple[int, ...]:
    at = 3 * (y * image.width + x)
    return tuple(image.pixels[at : at + 3])


def refusal(data: bytes) -> str:
    with pytest.raises(ImageError) as refused:
        prepared(data)
    assert isinstance(refused.value, RequestError)
    return str(refused.value)


def png_header(width: int, height: int, depth: int = 8, colour: int = 2) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_the_four_formats_are_read(kind: str) -> None:
    image = prepared(encoded(Image.new("RGB", (600, 400), RED), kind))
    assert (image.width, image.height, image.token_count) == (672, 448, 189)
    assert all(abs(a - b) < 4 for a, b in zip(pixel(image, 336, 224), RED, strict=True))


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "ICO", "PPM", "TGA", "PCX", "JPEG2000", "PDF"])
def test_other_formats_are_not(kind: str) -> None:
    assert refusal(encoded(Image.new("RGB", (64, 64)), kind)).startswith(f"here.image[0]: {UNSUPPORTED}")


def test_what_is_not_of_the_same_shape_gets_grey_edges() -> None:
    image = prepared(encoded(Image.new("RGB", (513, 100), RED)))
    assert (image.width, image.height) == (1232, 252)
    assert [pixel(image, 600, y) for y in (0, 5, 6, 245, 246, 251)] == [GREY, GREY, RED, RED, GREY, GREY]


@pytest.mark.parametrize(("size", "above", "left"), [((280, 1355), 2, 0), ((252, 308), 0, 6), ((972, 465), 4, 0)])
def test_of_edges_of_unequal_width_the_first_is_officially_the_even_one(
    size: tuple[int, int], above: int, left: int
) -> None:
    image = prepared(encoded(Image.new("RGB", size, RED)))
    column = [pixel(image, image.width // 2, y) for y in range(above + 1)]
    row = [pixel(image, x, image.height // 2) for x in range(left + 1)]
    assert (column, row) == ([GREY] * above + [RED], [GREY] * left + [RED])


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF"])
def test_what_is_transparent_is_white(kind: str) -> None:
    image = prepared(encoded(Image.new("RGBA", (100, 100), (*RED, 0)), kind))
    assert pixel(image, 50, 50) == WHITE


def test_half_transparent_is_half_white() -> None:
    assert pixel(prepared(encoded(Image.new("RGBA", (100, 100), (200, 100, 50, 128)))), 9, 9) == (227, 177, 152)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"])
def test_every_mode_of_pixels_is_read(mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    image = prepared(encoded(Image.new(mode, (60, 60)), kind))
    assert (image.width, image.height) == (546, 546)


def test_sixteen_bits_of_grey_keep_their_brightness() -> None:
    image = prepared(encoded(Image.new("I;16", (60, 60), 30_000)))
    assert abs(pixel(image, 9, 9)[0] - 117) <= 1


def test_a_palette_with_transparency_is_read() -> None:
    image = Image.new("P", (60, 60), 1)
    image.putpalette([0, 0, 0, *RED])
    assert pixel(prepared(encoded(image, transparency=1)), 9, 9) == WHITE
    assert pixel(prepared(encoded(image, transparency=bytes([255, 0]))), 9, 9) == WHITE
    assert pixel(prepared(encoded(image)), 9, 9) == RED


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_of_a_moving_picture_the_first_is_taken(kind: str) -> None:
    first, *others = [Image.new("RGB", (100, 100), colour) for colour in (RED, WHITE, GREY)]
    image = prepared(encoded(first, kind, save_all=True, append_images=others, duration=100))
    assert all(abs(a - b) < 4 for a, b in zip(pixel(image, 9, 9), RED, strict=True))


@pytest.mark.parametrize(
    ("orientation", "red_corner"),
    [(1, "NW"), (2, "NE"), (3, "SE"), (4, "SW"), (5, "NW"), (6, "NE"), (7, "SE"), (8, "SW"), (9, "NW")],
)
def test_a_photograph_is_brought_upright(orientation: int, red_corner: str) -> None:
    photograph = Image.new("RGB", (900, 600), WHITE)
    photograph.paste(RED, (0, 0, 450, 300))
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = prepared(encoded(photograph, exif=exif))
    assert (image.width > image.height) == (orientation not in (5, 6, 7, 8))
    corners = {"N": image.height // 8, "S": image.height * 7 // 8, "W": image.width // 8, "E": image.width * 7 // 8}
    for corner in ("NW", "NE", "SW", "SE"):
        colour = pixel(image, corners[corner[1]], corners[corner[0]])
        assert colour == (RED if corner == red_corner else WHITE), corner


def test_little_detail_is_few_tokens() -> None:
    data = encoded(Image.new("RGB", (1500, 1000), RED))
    assert prepared(data).token_count == 890
    few = prepared(data, ImageDetail.LOW)
    assert (few.width, few.height, few.token_count) == (672, 448, 189)
    sliver = prepared(encoded(Image.new("RGB", (1, 8000), RED)), ImageDetail.LOW)
    assert (sliver.width, sliver.height) == (28, 12320)
    half = prepared(encoded(Image.new("RGB", (1024, 5), RED)), ImageDetail.LOW)
    assert (half.width, half.height) == (7112, 42)


def test_a_prompt_has_room_for_all_tokens_but_the_ones_it_shows() -> None:
    data = encoded(Image.new("RGB", (600, 400)))
    assert prompt_adjustment(prepared_images([BytesImage(data)] * 3)) == 3 * 188
    assert prompt_adjustment([]) == 0


def test_data_urls_are_read() -> None:
    url = "data:image/png;base64," + base64.b64encode(encoded(Image.new("RGB", (60, 60), RED))).decode()
    (image,) = prepared_images([DataUrlImage(url)])
    assert pixel(image, 9, 9) == RED


@pytest.mark.parametrize("url", ["", "zzz", "data:image/png;base64,@", "data:text/plain,abc", "data:,"])
def test_other_data_urls_are_refused(url: str) -> None:
    with pytest.raises(ImageError, match=r"^image\[0\]: You have uploaded an unsupported image"):
        list(prepared_images([DataUrlImage(url)]))


def test_urls_are_refused_unless_someone_fetches_them() -> None:
    source = UrlImage("http://example.org/x.png", path=".messages[2]")
    with pytest.raises(ImageError, match=r"^\.messages\[2\]\.image\[0\]: this server takes no images from URLs; send"):
        list(prepared_images([source]))

    class Gallery:
        def fetch(self, url: str, most_bytes: int) -> bytes:
            assert (url, most_bytes) == ("http://example.org/x.png", (32 << 20) + 1)
            return encoded(Image.new("RGB", (60, 60), RED))

    (image,) = prepared_images([source], Gallery())
    assert pixel(image, 9, 9) == RED


def test_limits_have_the_official_words() -> None:
    small = BytesImage(encoded(Image.new("RGB", (60, 60))), path="p")
    with pytest.raises(ImageError, match=r"^Too many images: max 600 images per request, got 601$"):
        prepared_images([small] * 601)
    large = BytesImage(bytes((32 << 20) + 1), path="p")
    with pytest.raises(ImageError, match=r"^p\.image\[0\]: image file size exceeds limit 32 MB$"):
        list(prepared_images([large]))
    padded = BytesImage(small.data + bytes(31 << 20), path="p")
    images = prepared_images([padded] * 3)
    assert len(list(itertools.islice(images, 2))) == 2
    message = "^Total image size exceeds the limit: max 64 MB per request, got 93 MB$"
    with pytest.raises(ImageError, match=message):
        next(images)


def test_sides_are_limited_and_more_so_among_many_images() -> None:
    def sliver(length: int) -> BytesImage:
        return BytesImage(encoded(Image.new("L", (length, 2))))

    small = BytesImage(encoded(Image.new("L", (2, 2))))
    assert len(list(prepared_images([sliver(8192)]))) == 1
    assert len(list(prepared_images([sliver(4096)] + [small] * 20))) == 21
    for sources in ([sliver(8193)], [sliver(4097)] + [small] * 20):
        with pytest.raises(ImageError, match="unsupported image"):
            list(prepared_images(sources))


BOMBS = {
    "png": png_header(60_000, 60_000) + chunk(b"IDAT", zlib.compress(bytes(100_000))) + chunk(b"IEND", b""),
    "png without width": png_header(0, 100) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b""),
    "png text": png_header(9, 9) + chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(50_000_000), 9)) + chunk(b"IEND", b""),
    "png profile": png_header(9, 9) + chunk(b"iCCP", b"k\0\0" + zlib.compress(bytes(50_000_000), 9)),
    "png without pixels": png_header(8192, 8192) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b""),
    "gif": b"GIF89a" + struct.pack("<HHBBB", 65_535, 65_535, 0, 0, 0) + b"\x2c" + struct.pack("<HHHHB", 0, 0, 9, 9, 0),
    "gif frame": b"GIF89a"
    + struct.pack("<HHBBB", 9, 9, 0, 0, 0)
    + b"\x2c"
    + struct.pack("<HHHHB", 0, 0, 65_535, 65_535, 0),
    "gif without size": b"GIF89a" + struct.pack("<HHBBB", 0, 0, 0, 0, 0) + b"\x2c" + bytes(9) + b"\x02\x00\x3b",
    "webp extended": b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0" + b"\xff\xff\xff" * 2,
    "webp lossless": b"RIFF\x1e\0\0\0WEBPVP8L\x0a\0\0\0\x2f" + struct.pack("<I", 16_382 | 16_382 << 14) + bytes(9),
    "webp lossy": b"RIFF\x1e\0\0\0WEBPVP8 \x0a\0\0\0\x10\0\0\x9d\x01\x2a"
    + struct.pack("<HH", 16_383, 16_383)
    + bytes(9),
    "jpeg": b"\xff\xd8\xff\xc0\0\x11\x08" + struct.pack(">HH", 65_535, 65_535) + b"\x03\x01\x11\0\x02\x11\0\x03\x11\0",
    "empty": b"",
    "only a signature": b"\x89PNG\r\n\x1a\n",
    "webp of no kind": b"RIFF\x04\0\0\0WEBP",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused(name: str) -> None:
    assert UNSUPPORTED in refusal(BOMBS[name])


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_truncated_image_is_refused_or_read_never_worse(kind: str) -> None:
    photograph = Image.effect_noise((40, 30), 90).convert("RGB")
    whole = encoded(photograph, kind)
    for length in range(0, len(whole), max(1, len(whole) // 150)):
        with suppress(ImageError):
            prepared(whole[:length])
    assert UNSUPPORTED in refusal(whole[: len(whole) // 2])


SEEDS = [
    encoded(Image.effect_noise((8, 8), 90).convert(mode), kind, **options)
    for mode, kind, options in (
        ("RGB", "PNG", {}),
        ("P", "PNG", {"transparency": 3}),
        ("RGB", "JPEG", {}),
        ("CMYK", "JPEG", {}),
        ("P", "GIF", {"save_all": True, "append_images": [Image.new("P", (8, 8))]}),
        ("RGBA", "WEBP", {"lossless": True}),
        ("RGB", "WEBP", {"save_all": True, "append_images": [Image.new("RGB", (8, 8))]}),
    )
]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=6))
def test_a_damaged_image_is_refused_or_read_never_worse(seed: bytes, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(seed)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    with suppress(ImageError):
        prepared(bytes(damaged))


def test_a_broken_note_about_the_picture_does_not_matter() -> None:
    assert prepared(encoded(Image.new("RGB", (60, 60)), exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff")).width == 546


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["RGBA", "RGB"])
def test_the_largest_image_stays_within_its_memory(mode: str) -> None:
    script = (
        "import io, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "from whitedwarf.conversation.content import BytesImage\n"
        "from whitedwarf.prompt.images import prepared_images\n"
        "print([i.width for i in prepared_images([BytesImage(sys.stdin.buffer.read())])])\n"
    )
    data = encoded(Image.new(mode, (8192, 8192), (*RED, 9)[: len(mode)]), compress_level=1)
    done = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=False)
    assert done.stdout.decode().split() == ["[1302]"], done.stderr.decode()


def test_pillow_comes_with_the_first_image_only() -> None:
    script = "import sys, whitedwarf.prompt.images; print(any(name.startswith('PIL') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"


def with_scans(photograph: bytes, count: int) -> bytes:
    """A JPEG that goes over its picture `count` times more than it needs."""
    end = photograph.rindex(b"\xff\xd9")
    last = photograph[photograph.rindex(b"\xff\xda") : end]
    return photograph[:end] + last * count + photograph[end:]


def test_a_photograph_of_many_scans_is_refused_before_any_is_decoded() -> None:
    photograph = encoded(Image.new("L", (400, 400), 200), "JPEG", progressive=True)
    assert prepared(with_scans(photograph, 50)).pixels == prepared(photograph).pixels
    hidden = photograph[:2] + b"\xff\x01" + photograph[2:]  # a marker without a length, and a scan right behind it
    for start in (photograph, hidden):
        assert UNSUPPORTED in refusal(with_scans(start, 100_000))


def test_scans_in_a_comment_or_behind_the_picture_do_not_count() -> None:
    photograph = encoded(Image.new("L", (40, 40), 200), "JPEG")
    noise = b"\xff\xda" * 1_000
    commented = photograph[:2] + b"\xff\xfe" + struct.pack(">H", len(noise) + 2) + noise + photograph[2:] + noise
    assert prepared(commented).pixels == prepared(photograph).pixels
