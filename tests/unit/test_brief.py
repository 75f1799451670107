"""What is typed to an agent, and how it is read back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dogwatch.model import brief

WORD = st.from_regex(r"\A[a-z][a-z0-9_.-]{0,20}\Z")


@given(id_=st.from_regex(r"\Am[0-9a-f-]{1,30}\Z"), kind=st.sampled_from(brief.KINDS), subject=WORD, rest=st.text())
def test_a_header_is_found_again_in_whatever_text_follows_it(id_: str, kind: str, subject: str, rest: str) -> None:
    header = brief.Header(id_, kind, subject)
    assert brief.headers(f"{header}\n{rest}")[0] == header


def test_a_prompt_with_two_messages_has_two_headers_in_order() -> None:
    text = "[dogwatch:m1 mail inbox]\nhello\n[dogwatch:m2-b nudge analyse]\ngo on"
    assert brief.headers(text) == (brief.Header("m1", "mail", "inbox"), brief.Header("m2-b", "nudge", "analyse"))


def test_a_text_without_header_has_none() -> None:
    assert brief.headers("please look at [dogwatch] and [dogwatch:x y z]") == ()


def test_a_dispatch_names_its_files_and_how_to_report() -> None:
    text = brief.dispatch("analyse", "Look at it.", (("a/report.md", "report"), ("data.json", "file")))
    assert brief.written_files(text) == ("a/report.md", "data.json")
    assert "dogwatch report done --task analyse" in text
    assert 'dogwatch report failed --task analyse --note "why"' in text


def test_a_second_attempt_carries_what_was_said_of_the_first() -> None:
    text = brief.dispatch("analyse", "Look at it.", (), note="the figures are old")
    assert "the figures are old" in text
    assert brief.written_files(text) == ()


@given(files=st.lists(st.tuples(WORD, st.from_regex(r"\A[a-z_-]{1,10}\Z")), max_size=5))
def test_the_files_of_a_dispatch_are_read_back_as_written(files: list[tuple[str, str]]) -> None:
    text = brief.dispatch("t", "Do it.", tuple(files))
    assert brief.written_files(text) == tuple(path for path, _ in files)


LETTERS = st.lists(st.tuples(st.from_regex(r"\Am[0-9a-f]{10}\Z"), WORD, st.text()), max_size=4)


@given(letters=LETTERS)
def test_an_inbox_says_what_to_do_with_each_letter_whatever_is_in_it(letters: list[tuple[str, str, str]]) -> None:
    text = brief.inbox(letters)
    assert brief.read_letters(text) == tuple(letter for letter, _, _ in letters)
    assert brief.read_letters(brief.inbox([("m0", "a", text)])) == ("m0",), "an inbox that somebody sends is a text"


def test_other_messages_say_which_command_answers_them() -> None:
    assert "dogwatch claim review" in brief.offer("review", "Review it.")
    assert "dogwatch checkpoint approve plan" in brief.checkpoint("plan", "plan.md", "Is it sound?")
    assert "dogwatch checkpoint revise plan" in brief.checkpoint("plan", "plan.md", "")
    assert "dogwatch report done --task analyse" in brief.nudge("task", "analyse")
    assert "dogwatch checkpoint approve plan" in brief.nudge("checkpoint", "plan")
    assert "dogwatch claim review" in brief.nudge("offer", "review")
