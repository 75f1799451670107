"""Tokens are taken out of any text, wherever they stand in it; what only looks a little like one stays."""

from __future__ import annotations

import base64
import json
import random
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.model.redact import Redactor, is_secret, known_secrets, redact

ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"


def letters(alphabet: str, count: int) -> st.SearchStrategy[str]:
    """Random, with a digit and a letter in it, as every token has."""
    return st.text(alphabet, min_size=count, max_size=count).map(lambda text: f"{text[:-2]}a7")


def prefixed(prefixes: str, alphabet: str, count: int) -> st.SearchStrategy[str]:
    return st.builds(lambda prefix, rest: prefix + rest, st.sampled_from(prefixes.split()), letters(alphabet, count))


def segment(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


JWTS = st.builds(
    lambda name, signature: f"{segment({'alg': 'HS256', 'typ': 'JWT'})}.{segment({'sub': name})}.{signature}",
    st.text(ALNUM, min_size=4, max_size=20),
    letters(URLSAFE, 43),
)
TOKENS: dict[str, st.SearchStrategy[str]] = {
    "anthropic": prefixed("sk-ant-api03- sk-ant-oat01- sk-ant-sid01-", URLSAFE, 95),
    "openai": prefixed("sk-proj- sk-svcacct- sk-admin- sk-or-v1-", URLSAFE, 64),
    "github": prefixed("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", ALNUM, 36),
    "gitlab": prefixed("glpat-", URLSAFE, 20),
    "slack": prefixed("xoxb- xoxp- xoxa- xapp-", ALNUM, 24),
    "webhook": prefixed("https://hooks.slack.com/services/T00000000/B00000000/", ALNUM, 24),
    "npm": prefixed("npm_", ALNUM, 36),
    "pypi": prefixed("pypi-AgEIcHlwaS5vcmc", URLSAFE, 60),
    "stripe": prefixed("sk_live_ rk_live_ sk_test_", ALNUM, 24),
    "jwt": JWTS,
}
"""Those that are known wherever they stand, also in the middle of a word."""
STANDING_ALONE: dict[str, st.SearchStrategy[str]] = {
    "google": prefixed("AIza", URLSAFE, 35),
    "openai": prefixed("sk-", ALNUM, 48),
    "aws": prefixed("AKIA ASIA", string.ascii_uppercase + string.digits, 14).map(lambda text: text[:-2] + "Q7A2"),
}
ANY_TOKEN = st.one_of(*TOKENS.values())


@pytest.mark.parametrize("kind", sorted(TOKENS))
@given(data=st.data())
def test_a_token_anywhere_in_any_text_does_not_survive(kind: str, data: st.DataObject) -> None:
    token = data.draw(TOKENS[kind])
    before, behind = data.draw(st.text()), data.draw(st.text())
    assert token not in redact(before + token + behind)


@pytest.mark.parametrize("kind", sorted(STANDING_ALONE))
@given(data=st.data())
def test_a_token_that_stands_alone_does_not_survive(kind: str, data: st.DataObject) -> None:
    token = data.draw(STANDING_ALONE[kind])
    edge = st.text().map(lambda text: text.rstrip(ALNUM))
    assert token not in redact(f"{data.draw(edge)} {token} {data.draw(st.text())}")


SAID = {
    "Authorization: Bearer abc.def-123": "Authorization: Bearer [redacted:authorization]",
    "-H 'Authorization: Basic dXNlcjpwYXNz'": "-H 'Authorization: Basic [redacted:authorization]'",
    "curl https://bob:hunter2@example.org/x": "curl https://bob:[redacted:password]@example.org/x",
    "postgresql://u:p@ss:w0rd@db/market": "postgresql://u:[redacted:password]@db/market",
    "export DB_PASSWORD=correcthorse": "export DB_PASSWORD=[redacted:value]",
    'STRIPE_KEY="some words 1"': 'STRIPE_KEY="[redacted:value]"',
    '{"api_key": "abcdefgh"}': '{"api_key": "[redacted:value]"}',
    '{"clientSecret":"abcdefgh"}': '{"clientSecret":"[redacted:value]"}',
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "aws_secret_access_key = [redacted:value]",
    "x-api-key: 1234abcd5678": "x-api-key: [redacted:value]",
    "password: hunter22": "password: [redacted:value]",
    "GITHUB_PAT=zzzzzzzz9": "GITHUB_PAT=[redacted:value]",
}


@pytest.mark.parametrize("line", SAID)
def test_a_value_is_taken_out_and_its_name_stays(line: str) -> None:
    assert redact(line) == SAID[line]


def image() -> str:
    """With what begins like a token in the middle."""
    noise = base64.b64encode(random.Random(7).randbytes(60_000)).decode()
    return f"{noise}AIza{'a7' * 20}/AKIA{'A7' * 8}+sk-{noise}"


ORDINARY = [
    "commit 3f2a9c1d8e7b6a5f4c3d2e1f0a9b8c7d6e5f4a3b",
    "550e8400-e29b-41d4-a716-446655440000",
    "from sklearn import svm  # sk-learn, task-force, risk-averse, disk-0123456789abcdef0123456789",
    '"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg=="',
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "npm_config_registry=https://registry.npmjs.org/ npm_lifecycle_event=test",
    "✻ Baking… (12s · ↑ 2.1k tokens · esc to interrupt)",
    "MAX_THINKING_TOKENS=31999 and max_tokens: 32000000",
    "The password: required. A token is a word, a secret is a secret; press any key: Enter",
    "token = tokens[position]; key=lambda one: one.name; primary_key=True",
    "export API_KEY=$OTHER_KEY TOKEN=${TOKEN} SECRET=<your secret here> PASSWORD=********",
    "see https://example.org:8443/a@b and git@github.com:owner/name.git and http://localhost:8080/",
    "ssh://git@host.example/repo.git user@example.org",
    "bearer of bad news; Bearer authentication is used",
    "-----BEGIN CERTIFICATE-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END CERTIFICATE-----",
    "ASIAN and AKIAKI are words, eyJ begins base64",
    "  1 │ def test_a_token_is_found() -> None:",
    "m3f2a9c1d0 dispatch draft · 2026-01-31T12:00:00.123456+00:00 /srv/project/src/secret_santa.py",
]


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_lines_stay_as_they_are(line: str) -> None:
    assert redact(line) == line
    assert Redactor().lines([line.replace("\n", " ")]) == (line.replace("\n", " "),)


def test_the_base64_of_an_image_stays_as_it_is() -> None:
    assert redact(image()) == image()


@given(st.text(), st.one_of(st.just(""), ANY_TOKEN), st.text())
def test_to_do_it_twice_is_to_do_it_once(before: str, token: str, behind: str) -> None:
    once = redact(f"{before}{token}{behind} API_TOKEN={token}{behind}")
    assert redact(once) == once


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | ANY_TOKEN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | ANY_TOKEN, inner, max_size=3),
    max_leaves=8,
)


@given(JSON, ANY_TOKEN)
def test_a_nested_value_keeps_its_form_and_none_of_its_tokens(value: Any, token: str) -> None:
    told = redact({"list": [value, {"deep": f"x{token}y"}], "n": 1})
    assert token not in json.dumps(told)
    assert told["n"] == 1
    assert "[redacted:" in told["list"][1]["deep"]


def test_a_value_under_a_name_that_says_secret_is_taken_out_and_others_stay() -> None:
    told = redact({"tool_input": {"api_key": "whatever it is", "key": "a sort key", "name": "x"}, "pid": 7})
    assert told == {"tool_input": {"api_key": "[redacted:value]", "key": "a sort key", "name": "x"}, "pid": 7}


def test_what_is_nested_without_end_is_no_error() -> None:
    value: Any = "ghp_" + "a1" * 18
    for _ in range(5000):
        value = [value]
    told: Any = redact(value)
    while isinstance(told, list):
        (told,) = told
    assert told == "[redacted:depth]"


PEM_ROWS = [base64.b64encode(random.Random(n).randbytes(48)).decode() for n in range(12)]
PEM = ["-----BEGIN OPENSSH PRIVATE KEY-----", *PEM_ROWS, "-----END OPENSSH PRIVATE KEY-----"]


@pytest.mark.parametrize("rows", [PEM, PEM[:8], PEM[5:]], ids=["whole", "its end is cut", "its beginning has scrolled"])
@pytest.mark.parametrize("margin", ["", "  │ "])
def test_a_private_key_leaves_no_row_behind(rows: list[str], margin: str) -> None:
    shown = ["$ cat id_ed25519", *(margin + row for row in rows), "$ "]
    for told in ("\n".join(Redactor().lines(shown)), redact("\n".join(shown))):
        assert not [row for row in PEM_ROWS if row in told]
        assert "$ cat id_ed25519" in told


KNOWN = 'zq9-Xk27 "quoted"/\\_secret+value'


@given(before=st.text(), behind=st.text())
def test_a_known_value_is_found_in_every_form(before: str, behind: str) -> None:
    redactor = Redactor(known_secrets({"DEPLOY_TOKEN": KNOWN}))
    assert KNOWN not in redactor.text(before + KNOWN + behind)
    written = json.dumps({"x": before + KNOWN + behind})
    assert KNOWN not in json.loads(redactor.text(written))["x"]
    encoded = base64.b64encode(f"{before}:{KNOWN}:{behind}".encode(errors="replace")).decode()
    told = redactor.text(f"Basic {encoded} x")
    assert encoded not in told
    assert "[redacted:DEPLOY_TOKEN]" in told


def test_only_values_that_can_be_told_from_other_text_are_looked_for() -> None:
    told = known_secrets(
        {
            "API_KEY": "k3y-of-the-operator",
            "SHORT_TOKEN": "abc123",
            "POSTGRES_PASSWORD": "postgres",
            "PIN_SECRET": "12345678",
            "SSH_KEY": "/home/u/.ssh/id_ed25519",
            "EDITOR": "k3y-no-secret-by-name",
        }
    )
    assert told == {"k3y-of-the-operator": "API_KEY"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ANTHROPIC_API_KEY", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("PGPASSWORD", True),
        ("GH_TOKEN", True),
        ("GITHUB_PAT", True),
        ("npm_config__auth", True),
        ("CLAUDE_CODE_MAX_OUTPUT_TOKENS", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("SSH_AUTH_SOCK", False),
        ("KEYBOARD", False),
        ("PATH", False),
        ("MONKEY", False),
        ("PWD", False),
        ("SSL_KEY_FILE", False),
    ],
)
def test_a_name_says_whether_its_value_is_secret(name: str, expected: bool) -> None:
    assert is_secret(name) is expected


@given(token=ANY_TOKEN, column=st.integers(min_value=41, max_value=150), indent=st.sampled_from(["", "    ", "  │ "]))
def test_a_token_that_goes_on_in_the_next_row_does_not_survive(token: str, column: int, indent: str) -> None:
    """Whether the terminal breaks it at its edge or a client within its box."""
    width = 160
    text = f"{'said '.ljust(column, '.')} {token} and no more"
    rows = [indent + text[start : start + width] for start in range(0, len(text), width)]
    told = "".join(row.removeprefix(indent) for row in Redactor().lines(rows))
    assert told.endswith(" no more"), "at most the word behind it goes with it"
    assert not any(token[at : at + 12] in told for at in range(len(token) - 12)), told


def test_a_word_below_a_token_in_a_short_row_stays() -> None:
    rows = ["key: ghp_" + "a1" * 18, "Done."]
    assert Redactor().lines(rows) == ("key: [redacted:github]", "Done.")


def test_long_text_without_any_token_and_with_many_beginnings_of_one_takes_no_time() -> None:
    """Patterns that go back and forth would take minutes here, not the seconds that a busy machine may."""
    for piece in (
        "-----BEGIN PRIVATE KEY-----\n",
        "QUJD" * 19 + "\n",
        "eyJ",
        "https://a:",
        "password=",
        "sk-",
        '"token": "',
    ):
        text = "private key " + piece * (65_536 // len(piece))
        assert len(redact(text)) > 0
        assert Redactor().lines(text.split("\n")) is not None
