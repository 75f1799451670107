"""Results name what they were measured on, and whoever reads a figure learns whether the code has changed since."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench import __main__ as command
from bench import measured, provenance
from bench.provenance import KEY, RESULTS, NoSuchSourceError, digest, show_stale, sources, state, take

ROOT = Path(__file__).resolve().parents[2]
GUARD = "bench/results/guard.json"
PAGE = "# A page\n\n<!-- measured: guard -->\n<!-- /measured -->\n\nThe end.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with the sources of one benchmark, a page with its figures, and nothing measured so far."""
    for name, text in {
        "src/dogwatch/guard/judge.py": "judge",
        "src/dogwatch/guard/bash/parse.py": "parse",
        "tests/data/guard/own/deny.txt": "kill 1",
        "bench/guard.py": "measure",
        "bench/results/guard.json": json.dumps({"figures": []}),
        "docs/guard.md": PAGE,
    }.items():
        write(tmp_path / name, text)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    argv = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return git(folder, "rev-parse", "HEAD").strip()


def measure(project: Path) -> None:
    """As a benchmark does."""
    before = take(GUARD, project)
    write(project / GUARD, json.dumps({"figures": [], **provenance.measured(GUARD, before, project)}))


def said(project: Path) -> tuple[bool, list[str]]:
    lines: list[str] = []
    return show_stale(project, lines.append), lines


# What is measured


@pytest.mark.parametrize("path", RESULTS)
def test_every_glob_matches_something(path: str) -> None:
    assert sources(RESULTS[path])


def test_every_results_file_has_its_sources_in_the_table() -> None:
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "bench" / "results").glob("*.json")}
    assert there <= set(RESULTS)
    assert {f"bench/results/{name}.json" for name in command.BENCHMARKS} <= set(RESULTS)


def test_a_benchmark_is_measured_by_a_source_of_its_own() -> None:
    for name in command.BENCHMARKS:
        assert f"bench/{name}.py" in sources(RESULTS[f"bench/results/{name}.json"])


def test_a_glob_that_matches_nothing_is_an_error_that_names_it(project: Path) -> None:
    (project / "bench" / "guard.py").rename(project / "bench" / "watch.py")
    with pytest.raises(NoSuchSourceError, match=r"bench/guard\.py matches no file"):
        take(GUARD, project)
    with pytest.raises(NoSuchSourceError, match="gone"):
        sources(["bench/*.py", "!gone/*.py"], project)


def test_what_is_taken_out_does_not_count(project: Path) -> None:
    found = sources(["src/dogwatch/**/*.py", "!src/dogwatch/guard/bash/**/*.py"], project)
    assert list(found) == ["src/dogwatch/guard/judge.py"]


def test_the_digest_tells_names_and_contents_and_nothing_else(project: Path) -> None:
    def now() -> str:
        return digest(sources(RESULTS[GUARD], project))

    first = now()
    commit(project)
    write(project / "bench" / "other.py", "not measured here")
    assert now() == first
    judge = project / "src" / "dogwatch" / "guard" / "judge.py"
    judge.rename(judge.with_name("rule.py"))
    moved = now()
    judge.with_name("rule.py").write_text("judge ")
    assert len({first, moved, now()}) == 3


# The commit


def test_results_name_the_commit_and_whether_their_own_sources_were_as_in_it(project: Path) -> None:
    newest = git(project, "rev-parse", "HEAD").strip()
    assert (take(GUARD, project).commit, take(GUARD, project).dirty) == (newest, False)
    write(project / "README.md", "not a source")
    assert not take(GUARD, project).dirty
    write(project / "src" / "dogwatch" / "guard" / "new.py", "new")
    assert take(GUARD, project).dirty
    commit(project)
    assert not take(GUARD, project).dirty
    (project / "src" / "dogwatch" / "guard" / "new.py").unlink()
    assert take(GUARD, project).dirty


def test_without_a_repository_the_digest_still_tells(project: Path) -> None:
    with_git = take(GUARD, project)
    (project / ".git").rename(project / "gone")
    without = take(GUARD, project)
    assert without.digest == with_git.digest
    assert without.commit == ""


def test_results_whose_sources_changed_while_they_were_measured_name_none(project: Path) -> None:
    before = take(GUARD, project)
    write(project / "bench" / "guard.py", "measure otherwise")
    assert provenance.measured(GUARD, before, project) == {KEY: None}


# Whether it is current


def test_results_without_sources_are_of_unknown_age(project: Path) -> None:
    stale, lines = said(project)
    assert stale
    assert lines == [f"{GUARD}  {provenance.words(state(GUARD, project))}"]
    assert "not known whether they have changed since" in lines[0]


def test_results_are_current_until_a_source_changes(project: Path) -> None:
    measure(project)
    assert said(project) == (False, ["all figures are current"])
    write(project / "docs" / "guard.md", PAGE + "Another word.\n")
    commit(project)
    assert said(project) == (False, ["all figures are current"])


def test_what_has_changed_is_counted_and_the_commit_named(project: Path) -> None:
    measure(project)
    at = git(project, "rev-parse", "HEAD").strip()
    write(project / "src" / "dogwatch" / "guard" / "judge.py", "judge better")
    write(project / "src" / "dogwatch" / "guard" / "new.py", "new")
    (project / "src" / "dogwatch" / "guard" / "bash" / "parse.py").unlink()
    commit(project)
    changed = state(GUARD, project).changed
    assert changed == tuple(f"src/dogwatch/guard/{name}.py" for name in ("bash/parse", "judge", "new"))
    stale, (line,) = said(project)
    assert stale
    assert line.startswith(f"{GUARD}  measured at commit {at[:10]} on ")
    assert line.endswith("; the code has changed since (3 of 4 files)")


def test_the_command_says_so_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for stale, code in ((True, 1), (False, 0)):
        monkeypatch.setattr(provenance, "show_stale", lambda found=stale: found)
        assert command.main(["--stale"]) == code


# In the docs


def test_a_page_says_once_that_the_code_has_changed_since(project: Path) -> None:
    page, judge = project / "docs" / "guard.md", project / "src" / "dogwatch" / "guard" / "judge.py"
    texts = []

    def make_docs() -> None:
        found = measured.pages(project)
        assert list(found) == [page]
        page.write_text(found[page])
        texts.append(found[page])

    make_docs()
    measure(project)
    make_docs()
    judge.write_text("one change")
    make_docs()
    judge.write_text("another change")
    make_docs()
    unknown, current, changed, later = texts
    assert "not known whether they have changed since" in unknown
    assert "the code has not changed since.\n" in current
    assert changed == current.replace("has not changed since", "has changed since")
    assert later == changed
    assert later.startswith(
        "# A page\n\n<!-- measured: guard -->\n> Figures of `make bench NAME=guard`: measured at commit"
    )
    assert later.endswith("\n<!-- /measured -->\n\nThe end.\n")


def test_changes_that_were_not_committed_are_told(project: Path) -> None:
    write(project / "src" / "dogwatch" / "guard" / "judge.py", "judge better")
    measure(project)
    assert ", with changes that were not committed, on " in provenance.words(state(GUARD, project))


def test_a_page_that_asks_for_unknown_figures_is_an_error(project: Path) -> None:
    write(project / "docs" / "guard.md", PAGE.replace("guard", "gard"))
    with pytest.raises(measured.NoSuchResultsError, match="there are no results gard"):
        measured.pages(project)


# The command


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["sweeep"], "error: there is no benchmark sweeep\n", "hint: did you mean sweep?\n"),
        (["--fast"], "error: there is no benchmark --fast\n", "accuracy, cli, guard"),
        (["cli", "sim"], "error: one benchmark at a time, not cli sim\n", "accuracy, cli, guard"),
    ],
)
def test_wrong_words_are_told_with_a_hint(words: list[str], error: str, hint: str) -> None:
    argv = [sys.executable, "-m", "bench", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 64
    assert done.stderr.startswith(error)
    assert hint in done.stderr
    assert not done.stdout
