"""The Ray engine: the local engine's outcomes whatever becomes of the workers, and nothing left behind."""

import builtins
import importlib
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import scripted_work
import tiny
import typer
import yaml
from scanned_by_engines import Scans, opened_elsewhere, work_of
from scripted_work import Opener, Peculiar, Scripted, Spy, Spying, cannot_open, dies, same
from strange_models import checkpoint
from temporaries import left_in
from typer.testing import CliRunner

from audit.cli import app
from audit.corpus.images import open_image
from audit.engine.driver import drive, make_engine
from audit.engine.interface import SILENT, EngineSettings, Progress, Trial, WorkSource
from audit.errors import EngineError, TargetError, UsageError
from audit.files import PrivateFolder
from audit.targets.opening import environment
from audit.workflows import execution
from audit.workflows.attacking import fill_references
from audit.workflows.options import ScanOptions
from audit.workflows.session import Session, open_session

if any(find_spec(name) is None for name in ("ray", "tblib")):
    pytest.skip("needs the extra: pip install 'docaudit[ray]'", allow_module_level=True)

from audit.extensions import ray as engine_module
from audit.extensions.ray import RayEngine

pytestmark = pytest.mark.slow


def trials(names: Sequence[str]) -> list[Trial]:
    return [Trial(name, name) for name in names]


@contextmanager
def temporary(patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders go, short enough for sockets; empty again afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
    patch.setattr(tempfile, "tempdir", str(folder))
    patch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "fakes"))
    yield folder
    assert not left_in(folder)
    folder.rmdir()
    assert not Path("~/.ray/auth_token").expanduser().exists() or "RAY_AUTH_TOKEN" in os.environ


@pytest.fixture
def here(tmp_path, monkeypatch):
    """See `temporary`."""
    with temporary(monkeypatch) as folder:
        yield folder


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Ray with two CPUs, started once as an engine does it.

    Tests that start their own come before its first use.
    """
    tmp_path_factory.getbasetemp()  # not in the folder that has to be empty
    with (
        pytest.MonkeyPatch.context() as patch,
        temporary(patch) as folder,
        PrivateFolder(folder) as own,
        PrivateFolder(folder) as spilled,
    ):
        # Two GPUs that are not there, for those who count them.
        library = engine_module._library(local=True)
        patch.setattr(library, "init", partial(library.init, num_gpus=2))
        with RayEngine(workers=2)._connected(own, spilled) as ray:
            yield ray


@pytest.fixture
def cluster(started, monkeypatch):
    """Engines without an address find Ray started already: most of a test's time, where it is about something else."""
    monkeypatch.setattr(RayEngine, "_connected", lambda self, own, spilled: nullcontext(started))


def run(engine: RayEngine, source: WorkSource, names: Sequence[str]) -> list[tuple[str, Any]]:
    """All outcomes of a work, and the end of the engine."""
    with closing(engine):
        return list(engine.run(source, trials(names)))


def scripted(numbers: dict[str, int], **elsewhere: str) -> WorkSource:
    return WorkSource(Scripted(numbers, ""), Opener(numbers, **elsewhere), same)


def test_one_ray_takes_work_after_work_reads_the_drivers_files_and_the_terminal_stays_quiet(
    here, tmp_path, capfd
):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.png").write_text("page")
    before = signal.getsignal(signal.SIGTERM)
    source = WorkSource(Spy(), Spying(tmp_path, ("images/1.png",)), same)
    with closing(RayEngine(workers=2, width=1)) as engine:
        first = list(engine.run(source, trials([f"t{i}" for i in range(30)])))
        assert signal.getsignal(signal.SIGTERM) is before
        assert not set(open_to_others())
        again = list(engine.run(source, trials([f"t{i}" for i in range(30)])))
    # On a busy machine one worker may have done all before the other was up.
    workers = {outcome["pid"] for _, outcome in first + again} - {os.getpid()}
    assert 1 <= len(workers) <= 2
    for _, outcome in first + again:
        assert outcome["files"] == {"images/1.png": "page"}
        assert outcome["place"] == str(tmp_path), "nothing is copied"
        assert outcome["statistics"] == "0"
    assert capfd.readouterr() == ("", "")
    importlib.import_module("ray.experimental.tqdm_ray").instance()
    assert builtins.print.__module__ == "builtins", "Ray has put its own in its place"


def test_what_is_spilled_stays_under_the_usual_folder_when_its_path_is_too_long_for_sockets(
    here, monkeypatch
):
    """Who points TMPDIR at an encrypted disk wants documents there, in memory, or nowhere."""
    encrypted = here / "encrypted"
    encrypted.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(encrypted))
    with closing(RayEngine(workers=1)) as engine:
        assert dict(engine.run(scripted({"a": 0}), trials(["a"])))
        arguments = [
            part for child in psutil.Process().children(recursive=True) for part in child.cmdline()
        ]
        (spilled,) = [
            Path(part.partition("=")[2])
            for part in arguments
            if part.startswith("--fallback_directory=")
        ]
        assert spilled.parent == encrypted
        assert not [*encrypted.rglob("sockets")]
    assert not left_in(encrypted, spilled.name)
    encrypted.rmdir()


def open_to_others() -> Iterator[str]:
    """Where a process that this one started listens on another interface than the loopback."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            for connection in process.net_connections(kind="tcp"):
                address = connection.laddr.ip.removeprefix("::ffff:")
                if connection.status == psutil.CONN_LISTEN and address not in ("127.0.0.1", "::1"):
                    yield f"{process.name()} {address}"


# On one Ray for all of them.


@pytest.mark.usefixtures("cluster")
def test_outcomes_are_those_of_the_driver_and_a_killed_workers_trials_are_run_again(here, tmp_path):
    numbers = {f"t{i}": i for i in range(40)} | {"deadly": 1000}
    (tmp_path / "opened").mkdir()
    source = scripted(numbers, marker=str(tmp_path / "killed"), counts=str(tmp_path / "opened"))
    local = dict(drive(source.here, trials(list(numbers)), 3))
    with closing(RayEngine(workers=2, width=3)) as engine:
        outcomes = list(engine.run(source, trials(list(numbers))))
        # The next work, which has the same to share, is opened from what each worker has kept.
        again = dict(engine.run(replace(source), trials(list(numbers))))
    assert (tmp_path / "killed").exists()
    assert len(outcomes) == len(numbers)  # each once
    assert dict(outcomes) == again == local
    assert len(list((tmp_path / "opened").iterdir())) <= 3, (
        "two workers, and the one in the place of the killed"
    )


@pytest.mark.usefixtures("cluster")
def test_an_exception_of_a_trial_arrives_as_itself_with_its_place_and_the_engine_goes_on(here):
    source = scripted({"good": 3, "bad": -1})
    with closing(RayEngine(workers=1)) as engine:
        with pytest.raises(Peculiar, match="bad") as raised:
            list(engine.run(source, trials(["good", "bad"])))
        assert [name for name, _ in engine.run(source, trials(["good"]))] == ["good"]
    assert type(raised.value) is Peculiar
    innermost = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (innermost.filename, innermost.name) == (scripted_work.__file__, "raise_from_a_trial")


@pytest.mark.usefixtures("cluster")
def test_an_error_while_opening_arrives_with_its_hint(here, tmp_path):
    with pytest.raises(EngineError, match="not like this") as raised:
        run(RayEngine(workers=1), WorkSource(Spy(), cannot_open, same), ["a"])
    assert raised.value.hint == "but like that"
    with pytest.raises(EngineError, match="a worker does not see"):
        run(RayEngine(workers=1), WorkSource(Spy(), Spying(tmp_path / "gone", ()), same), ["a"])


@pytest.mark.usefixtures("cluster")
def test_trials_that_kill_every_worker_are_given_up(here):
    with pytest.raises(
        EngineError, match="3 Ray workers were lost over the same trials, 1 of them left"
    ) as raised:
        run(RayEngine(workers=1), WorkSource(Spy(), dies, same), ["receipt-of-somebody"])
    assert "receipt-of-somebody" not in str(raised.value)
    assert "fewer workers" in raised.value.hint


@pytest.mark.usefixtures("cluster")
def test_each_worker_has_a_gpu_of_its_own(here, tmp_path):
    source = WorkSource(Spy(), Spying(tmp_path, (), meet=2), same)
    assert run(RayEngine(gpu=True), source, ["a", "b"])
    assert {place.name.partition("-")[0] for place in tmp_path.iterdir()} == {"0", "1"}


def test_a_head_without_a_gpu_has_workers_with_one(scans):
    given = ScanOptions(
        scans.model, scans.data, scans.out, device="cuda", engine="ray:address=auto,gpus=0.5"
    )
    opened = open_session(replace(given, references=scans.references))
    assert opened.target.card.device == "cpu"
    assert any("This machine has no GPU" in warning for warning in opened.warnings)
    assert isinstance(opened.engine, RayEngine)
    assert (opened.engine.gpu, opened.engine.gpus) == (True, 0.5)
    filled = fill_references(opened, SILENT)
    elsewhere = work_of(opened, filled).elsewhere.__self__
    sent = [elsewhere.target, *elsewhere.models.values()]
    assert {model.card.device for model in sent} == {"cuda"}
    assert environment(opened.target, opened.device).device == "GPU"


def test_no_trials_start_nothing(here, monkeypatch):
    monkeypatch.setattr(engine_module, "_library", pytest.fail)
    assert run(RayEngine(), WorkSource(Spy(), dies, same), []) == []


def test_a_cluster_that_is_not_there_is_an_error_in_one_line(here):
    with pytest.raises(EngineError, match=r"Ray cannot be reached at 127\.0\.0\.1:9") as raised:
        run(RayEngine(address="127.0.0.1:9"), WorkSource(Spy(), dies, same), ["a"])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("engine", "available", "n_workers", "cpus", "gpus"),
    [
        pytest.param(
            RayEngine(threads=2),
            {"CPU": 8.0},
            4,
            2,
            0,
            id="four workers of two threads on eight CPUs",
        ),
        pytest.param(
            RayEngine(threads=4),
            {"CPU": 2.0},
            1,
            2,
            0,
            id="one worker where threads exceed the CPUs",
        ),
        pytest.param(
            RayEngine(threads=2, workers=3),
            {"CPU": 6.0},
            3,
            2,
            0,
            id="as many workers as asked for",
        ),
        pytest.param(RayEngine(), {"CPU": 200.0}, 100, 1, 0, id="not more workers than trials"),
        pytest.param(
            RayEngine(threads=8, gpu=True),
            {"CPU": 16.0, "GPU": 4.0},
            4,
            1,
            1,
            id="a worker for each GPU",
        ),
        pytest.param(
            RayEngine(gpu=True, workers=3),
            {"CPU": 16.0, "GPU": 2.0},
            3,
            1,
            0.5,
            id="three workers share two GPUs",
        ),
        pytest.param(
            RayEngine(gpu=True, gpus=0.25),
            {"CPU": 16.0, "GPU": 2.0},
            8,
            1,
            0.25,
            id="a quarter of a GPU each",
        ),
        pytest.param(
            RayEngine(gpu=True, gpus=2.0), {"CPU": 16.0, "GPU": 8.0}, 4, 1, 2.0, id="two GPUs each"
        ),
        pytest.param(
            RayEngine("auto", gpu=True, workers=8),
            {"CPU": 4.0},
            8,
            1,
            1,
            id="a machine may be started",
        ),
    ],
)
def test_workers_are_as_many_as_fit_and_share_gpus(engine, available, n_workers, cpus, gpus):
    assert engine._plan(available, 100) == (n_workers, {"num_cpus": cpus, "num_gpus": gpus})


def test_a_gpu_that_is_not_there_is_an_error():
    for engine in (
        RayEngine(gpu=True),
        RayEngine("auto", gpu=True),
        RayEngine(workers=2, gpu=True),
    ):
        with pytest.raises(EngineError, match="no GPU"):
            engine._plan({"CPU": 16.0}, 100)
    with pytest.raises(UsageError, match="the model is on a CPU"):
        RayEngine(gpus=0.5)._plan({"CPU": 16.0, "GPU": 4.0}, 100)


def test_a_private_folder_goes_even_when_its_process_is_killed(here):
    code = "from audit.files import PrivateFolder as F; f = F(); print(f.path, flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(here)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    path = Path(process.stdout.readline().strip())
    assert path.parent == here
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    (path / "page").write_text("a name")
    process.kill()
    process.communicate()
    assert not left_in(here)


# Whole scans, of few fields and with few candidates.


@dataclass
class Murderer(Progress):
    """Kills a worker as soon as there is an outcome."""

    alive: list[int] = field(default_factory=list)

    def advance(self, steps: int = 1) -> None:
        if not self.alive:
            children = psutil.Process().children(recursive=True)
            workers = [child for child in children if child.name() == "ray::Worker.run"]
            self.alive = [child.pid for child in workers]
            workers[0].kill()


@pytest.fixture
def scans(checkpoints, tmp_path):
    data = tiny.corpus(tmp_path / "data", members=3, heldout=3, public=1, images=True)
    classifier = checkpoints("layoutlm", "token-classification", 2)
    return Scans(classifier, data, {"auxiliary": [checkpoints("layoutlm", "mlm", 3)]}, tmp_path)


@pytest.mark.usefixtures("cluster")
def test_two_workers_give_the_local_record(here, scans):
    assert scans.record("ray", engine="ray:workers=2") == scans.record("local")


@pytest.mark.usefixtures("cluster")
def test_two_workers_give_the_local_record_even_when_one_is_killed(here, scans):
    local = scans.record("local")
    assert len(local[1]) >= 12
    progress = Murderer()
    assert scans.record("killed", progress, engine="ray:workers=2") == local
    assert progress.alive


@pytest.mark.usefixtures("cluster")
def test_a_scan_that_grows_on_its_way_gives_the_local_record(here, scans, monkeypatch):
    monkeypatch.setattr("audit.engine.growing.AFTER", 0.0)
    monkeypatch.setattr("audit.engine.growing.WORTH", 0.0)
    monkeypatch.setattr("audit.workflows.engines.MANY_CORES", 0)
    monkeypatch.setattr("audit.targets.opening.threads", lambda: 2)
    started: list[int] = []
    monkeypatch.setattr(
        RayEngine, "_start", lambda self, start=RayEngine._start: started.append(1) or start(self)
    )
    grown = scans.record("grown", width=2)
    assert started == [1]
    assert grown == scans.record("local", engine="local")


def opened_source(scans: Scans, **options: Any) -> tuple[Session, WorkSource]:
    given = ScanOptions(scans.model, scans.data, scans.out, references=scans.references, **options)
    opened = open_session(given)
    target = opened.target.rounded("bfloat16")
    return opened, work_of(opened, fill_references(opened, SILENT), target)


def test_a_worker_computes_as_was_decided_here(scans):
    opened, source = opened_source(scans, batch_size=256)
    work = opened_elsewhere(source, scans.out / "copies")
    target = work.case.target
    # The next attack, in another number format, finds the weights loaded and the data set read.
    kept = source.keeps(lambda root, names: root)
    filled = fill_references(opened, SILENT)
    works = [work_of(opened, filled, model) for model in (target, opened.target)]
    first, second = (one.elsewhere(kept).case for one in works)
    assert (first.target.card.dtype, second.target.card.dtype) == ("bfloat16", "float32")
    assert first.target.model is second.target.model
    assert first.references.auxiliary is second.references.auxiliary
    assert first.corpus is second.corpus
    assert (target.card.dtype, target.batch_tokens) == ("bfloat16", 256)
    assert work.case.references.auxiliary.card.dtype == "float32"
    assert work.case.corpus.documents == opened.corpus.documents
    assert not list((scans.out / "copies").rglob("*.png")), "no page before somebody looks at it"
    page = next(document for document in work.case.corpus.documents if document.image)
    assert open_image(work.case.corpus, page).tobytes() == open_image(opened.corpus, page).tobytes()
    assert len(list((scans.out / "copies").rglob("*.png"))) == 1


@pytest.mark.parametrize("changed", ["documents.jsonl", "model.safetensors", "image"])
def test_a_worker_refuses_a_file_that_changed_under_the_scan(scans, changed):
    opened, source = opened_source(
        replace(scans, model=Path(shutil.copytree(scans.model, scans.out / "own")))
    )
    page = next(document for document in opened.corpus.documents if document.image)
    names = {
        "model.safetensors": scans.out / "own" / changed,
        "image": scans.data / str(page.image),
    }
    with names.get(changed, scans.data / changed).open("ab") as stream:
        stream.write(b"\n")
    with pytest.raises((EngineError, TargetError), match=r"has changed since|cannot be loaded"):
        open_image(opened_elsewhere(source, scans.out / "copies").case.corpus, page)


@pytest.mark.usefixtures("cluster")
def test_a_file_that_changes_under_the_scan_stops_it(here, scans, monkeypatch):
    def changed(opened: Session, *rest: Any) -> WorkSource:
        with (scans.data / "documents.jsonl").open("a") as stream:
            stream.write("\n")
        return source(opened, *rest)

    source = execution.work_source
    monkeypatch.setattr(execution, "work_source", changed)
    with pytest.raises(EngineError, match="the data set has changed since"):
        scans.record("ray", engine="ray:workers=1")


def test_the_rayjob_of_the_manual_runs_a_command_that_docaudit_knows_on_the_gpus_it_asks_for():
    spec = yaml.safe_load((Path(__file__).parents[2] / "examples" / "rayjob.yaml").read_text())[
        "spec"
    ]
    program, name, *words = shlex.split(spec["entrypoint"])
    assert (program, name) == ("docaudit", "scan")
    given = typer.main.get_command(app).commands["scan"].make_context("scan", words).params
    engine = make_engine(given["engine"], EngineSettings(gpu=given["device"] == "cuda"))
    assert isinstance(engine, RayEngine)
    head = spec["rayClusterSpec"]["headGroupSpec"]
    (workers,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    (worker,) = workers["template"]["spec"]["containers"]
    count = workers["replicas"]
    gpus = count * int(worker["resources"]["limits"]["nvidia.com/gpu"])
    assert engine._plan({"CPU": 4.0 * count, "GPU": gpus}, 1000) == (
        count,
        {"num_cpus": 1, "num_gpus": 1},
    )
    assert {mount["mountPath"] for mount in worker["volumeMounts"]} == {engine.shared}
    assert all(
        path.is_relative_to(Path(str(engine.shared))) for path in (*given["folders"], given["out"])
    )
    assert head["rayStartParams"]["num-cpus"] == "0"


OPTIONS = {
    "no such engine": (("--engine", "rays:workers=2"), "one of auto, local, ray"),
    "options without Ray": (("--engine", "local:workers=2"), "leave the rest out"),
    "no such option": (("--engine", "ray:nodes=2"), "address=HOST:PORT, workers=N"),
    "a part of two GPUs": (("--engine", "ray:gpus=1.5"), "a part of one GPU"),
    "no folder": (("--engine", "ray:shared=mnt"), "shared=DIR"),
    "no GPU here": (("--engine", "ray:workers=2", "--device", "cuda"), "'cuda' is not available"),
    "no number": (("--engine", "ray:workers=0"), "as workers=4"),
    "Ray Client": (("--engine", "ray:address=ray://head:10001"), "address=auto"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_cannot_be_honoured_exit_2(name, tmp_path):
    more, told = OPTIONS[name]
    assert_refused(tmp_path, more, told)


@pytest.mark.parametrize(
    ("lacking", "told"),
    [(("ray", "tblib"), "needs ray and tblib"), (("tblib",), "needs tblib:"), (("ray",), "ray:")],
)
def test_without_ray_the_user_is_told_what_to_install(lacking, told, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in lacking else object()
    )
    assert_refused(tmp_path, ("--engine", "ray"), told)
    assert_refused(tmp_path, ("--engine", "ray"), "pip install 'docaudit[ray]'")


def assert_refused(folder: Path, more: Sequence[object], told: str) -> None:
    model = checkpoint(folder / "model")
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "manifest.toml").write_text("schema = 1\n")
    arguments = ["scan", model, folder / "data", "--out", folder / "out", *more]
    result = CliRunner().invoke(
        app, [str(argument) for argument in arguments], catch_exceptions=False
    )
    assert result.exit_code == 2, result.output
    assert told in result.output
    assert not (folder / "out").exists()
