"""Models and data sets of the Hugging Face Hub.

They are downloaded at one commit, where the network is allowed.
"""

import glob
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from audit.errors import DocauditError, EngineError, UsageError, is_address, printable, typed
from audit.extensions.hub_client import GIVE_FOLDER, bounded
from audit.failures import class_and_place
from audit.targets.checkpoint.tree import is_hashed

_ADDRESS = re.compile(
    r"(hf:/{1,2}(datasets/)?)?([A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@([\w./-]+))?"
)
_DATA = (
    "*.parquet",
    "*.arrow",
    "*.json",
    "*.jsonl",
    "*.csv",
    "*.toml",
    "*.txt",
    "*.pdf",
    "*.xml",
    "*.hocr",
)
_MOST_FILES = 2_000
"""Files that a model may have."""
_IMAGES = ("*.png", "*.jpg", "*.jpeg", "*.tif", "*.tiff", "*.webp")


def fetch(place: str | Path, *, allow_network: bool = False, plain: bool = False) -> Path:
    """Return the folder of a model or data set, downloaded first if it is an address of the Hub.

    A model gets the files that its sha256 covers. No pickle and no program is downloaded.

    Args:
        place: a folder, or `hf://ORG/MODEL`, or `hf://datasets/ORG/NAME`, each with or without
            `@REVISION`.
        allow_network: permit the download. Everything else stays offline.
        plain: take `ORG/MODEL` for an address too, if the network is allowed and there is no such
            folder; and the address of a server, which is returned as a path
            (`audit.extensions.remote.permit`).

    Returns:
        The folder. Its path holds the commit, which the record names.

    Raises:
        UsageError: the network is not allowed, or the Hub has no such model or data set.
        EngineError: the download failed.
    """
    path = Path(place)
    if plain and is_address(place):
        from audit.extensions.remote import permit

        return permit(place, allow_network)
    if path.exists():
        return path
    address = _ADDRESS.fullmatch(str(place))
    if address is None:
        if path.parts[:1] != ("hf:",):
            return path
        raise UsageError(
            f"{typed(place)}: is no address of the Hub",
            "write hf://ORG/MODEL or hf://datasets/ORG/NAME",
        )
    scheme, kind, name, revision = address.groups()
    if scheme is None and not (plain and allow_network):
        return path
    if not allow_network:
        raise _not_allowed(kind, name)
    return _download(name, kind is not None, revision)


def _not_allowed(kind: str | None, name: str) -> UsageError:
    """Return the error that nothing is downloaded without the owner's permission.

    Args:
        kind: what stands before the name of a data set in an address; None for a model.
        name: name of the model or data set.
    """
    local = f"hf download {name}{' --repo-type dataset' if kind else ''} --local-dir DIR"
    return UsageError(
        f"hf://{kind or ''}{name}: docaudit downloads nothing unless you allow it",
        f"add --allow-network (in Python allow_network=True), or run {local} and give DIR",
    )


def _download(name: str, is_data: bool, revision: str | None) -> Path:
    """Download one commit of a model or data set, and return its folder."""
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    kind = "dataset" if is_data else "model"
    try:
        with network(allowed=True), bounded(constants.ENDPOINT) as bounds:
            commit = _commit_of(HfApi().repo_info(name, revision=revision, repo_type=kind).sha)
            sizes = _announced(name, kind, commit)
            bounds.announce(sum(sizes.values()))
            # Links lead from a snapshot of the Hub's cache to its blobs. An import follows no link
            # out of its source.
            place = Path(
                constants.HF_HOME,
                "docaudit",
                f"datasets--{name.replace('/', '--')}",
                "snapshots",
                commit,
            )
            patterns = [glob.escape(path) for path in sizes]
            folder = None
            if is_data:
                patterns = [*_DATA, *_IMAGES]
                folder = place / name.rpartition("/")[2]
            return Path(
                snapshot_download(
                    name,
                    revision=commit,
                    repo_type=kind,
                    allow_patterns=patterns,
                    local_dir=folder,
                )
            )
    except (RepositoryNotFoundError, RevisionNotFoundError):
        address = name if revision is None else f"{name}@{revision}"
        hint = "correct the name; for a private or gated one first run: hf auth login"
        raise UsageError(f"{address}: the Hub shows no such {kind}", hint) from None
    except DocauditError:
        raise
    except Exception as error:  # the client documents no closed list, and repeats what the Hub said
        raise _failed_download(name, error) from error


def _failed_download(name: str, error: Exception) -> EngineError:
    """Return the error of a failed download; what the Hub said goes to its story."""
    failure = EngineError(f"{name}: the download failed: {class_and_place(error)}", _AGAIN)
    failure.story = printable(str(error))
    return failure


_AGAIN = "check HF_ENDPOINT and the network, and run the same command again to continue"


def _commit_of(stated: object) -> str:
    """Return the commit that the Hub states; refuse what is no name for a folder.

    Raises:
        UsageError: it is none.
    """
    if isinstance(stated, str) and re.fullmatch("[0-9a-f]{40}", stated):
        return stated
    raise UsageError(
        "the Hub names no commit of 40 hexadecimal digits, so nothing is downloaded", GIVE_FOLDER
    )


def _announced(name: str, kind: str, commit: str) -> dict[str, int]:
    """Return the sizes of the files to download, by name, as the Hub announces them.

    A model has the files that its sha256 covers: a copy of all its files that lies elsewhere is the
    same model.

    Raises:
        UsageError: a size is none.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils._paths import filter_repo_objects

    listed = HfApi().list_repo_tree(name, revision=commit, repo_type=kind, recursive=True)
    files = [entry for entry in listed if isinstance(entry, RepoFile)]
    if kind == "model":
        chosen = [file for file in files if is_hashed(file.path)]
        if len(chosen) > _MOST_FILES:
            raise UsageError(f"the Hub lists {len(chosen)} files of one model", GIVE_FOLDER)
    else:
        patterns = [*_DATA, *_IMAGES]
        chosen = list(
            filter_repo_objects(files, allow_patterns=patterns, key=lambda file: file.path)
        )
    return {file.path: _size_of(file.size) for file in chosen}


def _size_of(stated: object) -> int:
    """Return a file's size as the Hub states it; refuse what is no size.

    Raises:
        UsageError: it is none.
    """
    if type(stated) is int and stated >= 0:
        return stated
    raise UsageError("the Hub lists a file without its size, so nothing is downloaded", GIVE_FOLDER)


@contextmanager
def network(allowed: bool) -> Iterator[None]:
    """Let the client of the Hub use the network within the context.

    Or keep it offline, in spite of the environment.
    """
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = not allowed
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
