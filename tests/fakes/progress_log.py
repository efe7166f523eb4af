"""A progress that writes down what it is told."""

from audit.engine.interface import Progress


class ProgressLog(Progress):
    """Keeps the stages, each a name and its number of steps, and all that it is told, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int] | int] = []

    def stage(self, name: str, total: int = 0) -> None:
        self.calls.append((name, total))

    def advance(self, steps: int = 1) -> None:
        self.calls.append(steps)

    @property
    def stages(self) -> list[tuple[str, int]]:
        return [call for call in self.calls if not isinstance(call, int)]

    @property
    def steps(self) -> int:
        return sum(call for call in self.calls if isinstance(call, int))
