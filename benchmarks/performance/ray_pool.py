"""What Ray workers of a scan are sent, load and write, with an older checkout and with this one.

    git worktree add ../older COMMIT
    python -m benchmarks.performance.ray_pool --before ../older

Each checkout scans the receipts sample (20 documents, `quick`) with two workers: on this machine,
then on two simulated nodes beside a head without CPUs. A model counts as loaded when a worker opens
its weights to hash them. What is sent is what the driver puts into the object store, and what nodes
copy from its files. Writes `ray_pool.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parents[1] / "sample_models" / "receipts"
HOOK = """
import os, sys

def hook(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".safetensors") and not arguments[2] & os.O_WRONLY:
        with open(os.environ["LOADS"], "a") as stream:
            stream.write(f"{os.getpid()} {arguments[0]}\\n")

if os.environ.get("LOADS"):
    sys.addaudithook(hook)
"""
SCAN = """
import json, os, sys
from audit.extensions import ray as extension

library = extension._library(local=True)
init, put, counts = library.init, library.put, {"starts": 0, "put": 0}

def counted_init(*arguments, **named):
    counts["starts"] += 1
    return init(*arguments, **named)

def counted_put(value, *arguments, **named):
    counts["put"] += len(value) if isinstance(value, bytes) else len(library.cloudpickle.dumps(value))
    return put(value, *arguments, **named)

library.init, library.put = counted_init, counted_put
nodes = None
if os.environ["NODES"] == "2":
    from ray.cluster_utils import Cluster
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        nodes.add_node(num_cpus=1)
    sys.argv += ["--engine", f"ray:address={nodes.address},workers=2"]
else:
    sys.argv += ["--engine", "ray:workers=2"]
from audit.cli import main
try:
    main()
finally:
    print("COUNTED", json.dumps(counts | {"driver": os.getpid(), "copies": hasattr(extension, "Files")}))
    if nodes:
        nodes.shutdown()
"""


def written_below(place: Path, sizes: dict[str, int], ended: threading.Event) -> None:
    """Note how large the files of workers' private folders get, until the scan has ended."""
    while not ended.wait(0.05):
        for folder, _, names in os.walk(place):
            parts = Path(folder).relative_to(place).parts
            if parts and parts[0].startswith("docaudit-") and "ray" not in parts[1:2]:
                for name in names:
                    path = os.path.join(folder, name)
                    try:
                        sizes[path] = max(sizes.get(path, 0), os.stat(path).st_size)
                    except FileNotFoundError:
                        continue


def scan_with(
    checkout: Path, nodes: int, options: list[str]
) -> tuple[dict[str, int], dict[str, Any]]:
    """Scan the sample with the package of a checkout.

    Return what was counted, and the outcomes by attack and trial.
    """
    ended = threading.Event()
    sizes = dict[str, int]()
    with tempfile.TemporaryDirectory(prefix="p", dir="/tmp") as temporary:
        place = Path(temporary)
        (place / "hook").mkdir()
        (place / "hook" / "sitecustomize.py").write_text(HOOK)
        out = place / "out"
        loads = place / "loads"
        used = place / "t"
        used.mkdir()
        command = [
            sys.executable,
            "-c",
            SCAN,
            "scan",
            str(SAMPLE / "model"),
            str(SAMPLE / "data"),
            "--out",
            str(out),
        ]
        settings = {
            "PYTHONPATH": f"{place / 'hook'}:{checkout.resolve()}",
            "LOADS": str(loads),
            "NODES": str(nodes),
            "TMPDIR": str(used),
            "OMP_NUM_THREADS": "1",
        }
        watcher = threading.Thread(target=written_below, args=(used, sizes, ended))
        watcher.start()
        try:
            done = subprocess.run(
                [*command, "--budget", "quick", "--documents", "20", *options],
                cwd=checkout,
                env=os.environ | settings,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            ended.set()
            watcher.join()
        if done.returncode not in (0, 10, 11):
            sys.exit(f"{checkout}: {done.stdout}{done.stderr}")
        counted = json.loads(done.stdout.rpartition("COUNTED")[2].splitlines()[0])
        opened = [line.split(maxsplit=1) for line in loads.read_text().splitlines()]
        # On a node a worker opens copies; the sample itself is opened there by what sends it.
        above = used if nodes else Path("/")
        by_workers = [
            pid
            for pid, path in opened
            if pid != str(counted["driver"]) and Path(path).is_relative_to(above)
        ]
        journals = sorted((out / "evidence").glob("journal-*.jsonl"))
        lines: list[tuple[str, Any]] = []
        for path in journals:
            name = path.name.rpartition("-")[0]
            text = path.read_text(encoding="utf-8")
            lines.extend((name, json.loads(line)) for line in text.splitlines())
        left = sum(path.is_file() for path in used.glob("docaudit-*/**/*"))
    written = sum(sizes.values())
    found = {
        "starts of Ray": counted["starts"],
        "bytes sent": counted["put"] + (written if counted["copies"] else 0),
        "models loaded by workers": len(by_workers),
        "workers": len(set(by_workers)),
        "bytes written by workers": written,
        "files left": left,
    }
    return found, {f"{attack} {line['id']}": line["outcome"] for attack, line in lines}


def main() -> None:
    """Scan with both checkouts, on one machine and on nodes; print a table and write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True, help="the older checkout")
    checkouts: dict[str, tuple[Path, list[str]]] = {
        "before": (parser.parse_args().before, []),
        "after": (HERE.parents[1], []),
    }
    table: dict[str, Any] = {}
    for nodes in (0, 2):
        outcomes = {}
        for name, (checkout, options) in checkouts.items():
            counted, outcomes[name] = scan_with(checkout, nodes, options)
            table[f"{'two nodes' if nodes else 'one machine'}, {name}"] = counted
            print(json.dumps({f"{nodes} {name}": counted}), flush=True)
        table[f"{'two nodes' if nodes else 'one machine'}, same outcomes"] = (
            outcomes["before"] == outcomes["after"]
        )
    (HERE / "ray_pool.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
