"""All that the walk asks of the rules, in one place: it fulfils `bash.call.Rules`."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.state import Texts, World
from dogwatch.guard.rules import paths, programs


class Rulebook:
    """The rules of all programs, files and processes. Those of most programs are loaded when the first one is run."""

    __slots__ = ()

    def run(self, call: Call) -> Texts:
        return programs.run(call)

    def run_program(self, call: Call) -> Texts:
        return programs.run_program(call)

    def knows(self, name: str) -> bool:
        return programs.find(name) is not None

    def may_write(self, world: World, path: str, given: str) -> None:
        paths.may_write(world, path, given)

    def may_remove(self, world: World, path: str, given: str, recursive: bool) -> None:
        paths.may_remove(world, path, given, recursive)

    def inside(self, world: World, path: str, given: str) -> None:
        paths.inside(world, path, given)

    def judge_target(self, call: Call, target: str) -> None:
        from dogwatch.guard.rules.processes import judge_target

        judge_target(call, target)

    def run_module(self, call: Call, language: str, places: tuple[str, ...]) -> None:
        from dogwatch.guard.rules.scripts import run_module

        run_module(call, language, places)

    def written(self, call: Call, path: str, contents: Texts) -> None:
        from dogwatch.guard.rules.scripts import written

        written(call, path, contents)
