"""The docs say what the code says: generated pages are current, links lead somewhere, every variable is explained."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
VARIABLE = re.compile(r"\bDOGWATCH_[A-Z_]*[A-Z]\b|\bSCRIPTED_[A-Z]+\b")


def docs(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(folder / "scripts" / "docs.py"), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def test_generated_pages_are_what_the_code_says() -> None:
    done = docs("--check")
    assert done.returncode == 0, done.stderr


def test_a_page_that_was_changed_by_hand_is_noticed_and_written_anew(tmp_path: Path) -> None:
    scripts = ("scripts/docs.py", "scripts/architecture.py", "pyproject.toml")
    benchmarks = ("bench/__init__.py", "bench/measured.py", "bench/provenance.py")
    for name in (*scripts, *benchmarks, "docs/architecture.md", "docs/concepts.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    assert docs(folder=tmp_path).returncode == 0
    wrong_words = {
        "docs/reference/events.md": ("run_created", "run_made"),
        "docs/concepts.md": ("| `silent_turn` |", "| `quiet_turn` |"),
        "docs/architecture.md": ("    policy --> model\n", "    model --> policy\n"),
    }
    whole = {name: (tmp_path / name).read_text() for name in wrong_words}
    for name, (right, wrong) in wrong_words.items():
        assert right in whole[name]
        (tmp_path / name).write_text(whole[name].replace(right, wrong))
    noticed = docs("--check", folder=tmp_path)
    assert noticed.returncode == 1
    assert "hint: make docs" in noticed.stderr
    assert all(f"{name} is not current" in noticed.stderr for name in wrong_words)
    assert set(docs(folder=tmp_path).stdout.splitlines()) == {f"written: {name}" for name in wrong_words}
    assert {name: (tmp_path / name).read_text() for name in wrong_words} == whole


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), f"{page.name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {target.name} has no heading #{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            waiting += [target for target, _ in links(page)]
    assert set(PAGES) <= reached


def test_every_variable_of_the_environment_is_explained() -> None:
    used = {name for path in (ROOT / "src").rglob("*.py") for name in VARIABLE.findall(path.read_text())}
    explained = set(VARIABLE.findall((ROOT / "docs" / "reference" / "settings.md").read_text()))
    assert used == explained


def test_the_picture_stands_alone() -> None:
    picture = (ROOT / "docs" / "images" / "live-table.svg").read_text()
    hosts = set(re.findall(r"https?://[^\"'\s)]+", picture))
    assert hosts == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in picture
    assert "RUNNING" in picture


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The relative links outside of code blocks, as the file and the heading that they mean."""
    for match in LINK.finditer(FENCED.sub("", page.read_text())):
        if not re.match(r"[a-z]+:", match["path"]):
            target = (page.parent / match["path"]).resolve() if match["path"] else page
            yield target, match["anchor"] or ""


def anchors(page: Path) -> set[str]:
    """The page's headings in the form that links use."""
    titles = (match["title"] for match in HEADING.finditer(FENCED.sub("", page.read_text())))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
