"""Masking: what is found, what stays, and that it is done once."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent.secrets import MASK, Secrets

KEYS = [
    "sk-abcdefghijklmnop1234",
    "sk-ant-api03-abc_def-0123456789",
    "hf_abcdefghijklmnopqrstuvwx",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0123456789_abcdef",
    "glpat-abcdefghijklmnop1234",
    "xoxb-1234567890-abcdef",
    "AKIAABCDEFGHIJKLMNOP",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghijk",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:12])
def test_keys_of_the_usual_shapes_are_masked_and_nothing_else(key):
    assert Secrets().mask(f'before "{key}" after\n') == f'before "{MASK}" after\n'


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abc123.def_456", f"Authorization: Bearer {MASK}"),
        ("authorization: basic dXNlcjpwYXNz1A==", f"authorization: basic {MASK}"),
        ("x-api-key: 12345678abc", f"x-api-key: {MASK}"),
        ('{"x-api-key": "12345678abc"}', f'{{"x-api-key": "{MASK}"}}'),
        ("DB_PASSWORD=hunter2\nHOME=/root", f"DB_PASSWORD={MASK}\nHOME=/root"),
        ('export MY_API_KEY="abcdef"', f'export MY_API_KEY="{MASK}"'),
        ("-----BEGIN PRIVATE KEY-----\nMIIEcut", MASK),
        ("STRIPE_KEY='abcdef'", f"STRIPE_KEY='{MASK}'"),
        ("https://user:passw0rd@host/x", f"https://user:{MASK}@host/x"),
    ],
)
def test_what_follows_telling_words_is_masked_and_the_words_stay(text, masked):
    assert Secrets().mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the bearer of good news arrived",
        "Basic understanding of keys and tokens",
        "MAX_TOKENS=1000 TOKENIZERS_PARALLELISM=false MONKEY=banana",
        "sk-learn and task-oriented",
        "def key(token): return secret",
        "https://example.org:8080/a@b",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "eyJ.short.one",
    ],
)
def test_ordinary_text_stays(text):
    assert Secrets().mask(text) == text


def test_values_of_telling_variables_are_masked_wherever_they_stand():
    secrets = Secrets.of(
        {
            "GITHUB_TOKEN": "correct horse",
            "DB_PASSWORD": "battery.staple*",
            "longer_secret": "correct horse battery",
            "SHORT_KEY": "abc",
            "SSH_KEY": "/home/me/.ssh/id",
            "PATH": "/usr/bin:/bin",
            "KEYBOARD": "qwertyuiop",
        }
    )
    assert secrets.known == ("correct horse battery", "battery.staple*", "correct horse")
    text = "a correct horse battery, a correct horse, xbattery.staple*y, abc /home/me/.ssh/id /usr/bin:/bin qwertyuiop"
    assert secrets.mask(text) == f"a {MASK}, a {MASK}, x{MASK}y, abc /home/me/.ssh/id /usr/bin:/bin qwertyuiop"


TEXTS = st.lists(
    st.one_of(
        st.text(max_size=6), st.sampled_from([*KEYS, "Bearer ", "A_TOKEN=", "://u:", "@", MASK, "sk-", "[", "12345678"])
    ),
    max_size=8,
).map("".join)


@given(TEXTS, st.lists(st.text(min_size=8, max_size=12), max_size=3))
def test_masking_again_changes_nothing_and_no_text_grows_beyond_twice_its_length(text, values):
    secrets = Secrets.of({f"SECRET_{number}": value for number, value in enumerate(values)})
    masked = secrets.mask(text)
    assert secrets.mask(masked) == masked
    assert len(masked) <= 2 * len(text)
    for value in secrets.known:
        if value not in MASK:
            assert all(value not in piece for piece in masked.split(MASK))


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="/~"), min_size=8, max_size=20),
    st.text("abc \n", max_size=20),
    st.text("abc \n", max_size=20),
)
def test_what_stands_around_a_known_value_stays(value, before, after):
    secrets = Secrets.of({"MY_SECRET": value})
    if secrets.mask(before + after) == before + after and value not in before + after:
        masked = secrets.mask(f"{before}|{value}|{after}")
        if value.strip("abc \n|") == value:
            assert masked == f"{before}|{MASK}|{after}"


@pytest.mark.parametrize(
    "piece", ["A", "A_KEY", "sk-", "Bearer ", "://a:", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaa.", "eyJ-"]
)
def test_a_lot_of_anything_takes_no_time(piece):
    began = time.process_time()
    Secrets().mask(piece * (300_000 // len(piece)))
    assert time.process_time() - began < 30
