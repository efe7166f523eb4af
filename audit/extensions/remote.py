"""Models behind a server of chat completions.

They are black boxes that give answers alone, and answers for a checkpoint.

Nothing proves which weights answer for a server. A black box is known by what its server says, and
is asked questions alone. `relay` takes the answers of a local checkpoint from a server of the same
model, such as vLLM, where both answer alike; scores stay with the checkpoint.
"""

import base64
import hashlib
import io
import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, cast
from urllib.parse import SplitResult, urlsplit

from audit.cards import SERVED, TargetCard
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold
from audit.corpus.images import PageView, page_view
from audit.errors import DocauditError, EngineError, TargetError, UsageError, printable, typed
from audit.extensions.exchange import BoundlessError, HttpReply, Origin, cleaned, is_loopback
from audit.files import table_beside
from audit.measurements import Diagnostic
from audit.targets import fill_text, interface
from audit.targets.answering.reader import LONGEST_ANSWER, QUESTION
from audit.targets.answering.rows import NO_WORDS, refuse_documents
from audit.targets.answering.target import AnsweringTarget
from audit.targets.answering.words_reader import CHAT_PROMPT, TEXT, TextPrompt, text_of_words
from audit.targets.checkpoint.content import TrainingProgress
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.opening import Checkpoint, Opener
from audit.targets.reference_rules import same_type

_TABLE = table_beside(__file__, "remote.toml")
wording = partial(fill_text, _TABLE["errors"])
WORDS = _TABLE["words"]
HINTS: Mapping[str, str] = _TABLE["hints"]  # by the status of a refusal
# Variables of the environment with the key of a server; the second one is sent to its owner alone.
KEY = "DOCAUDIT_API_KEY"
OWNED_KEY = "OPENAI_API_KEY"
OWNER = "api.openai.com"
PARALLEL = 16  # requests on their way at a time, unless --batch-size says so
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before each further try
MOST_LETTERS = 200  # of the names of models in a message
LONGEST_PAUSE = 60.0  # seconds that a server asks for
BUSY = frozenset(
    {0, 408, 425, 429, 500, 502, 503, 504, 529}
)  # statuses that may pass; 0: there was no reply
# Questions that are asked twice, or of a server and its checkpoint, and the share that these must
# answer alike.
EXAMINED = 16
LEAST_ALIKE = 0.75
_SIGNS = re.compile("[!-~]*")  # what a host and a path of an address consist of
_NAME = re.compile(
    r"[\w./:@+\[\]-]{1,200}"
)  # of a model: it is printed and recorded, and a page is none
_VERSION = re.compile(r"[\w.+-]{1,40}")
_PERMITTED: set[str] = set()
_NO_REPLY = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


def permit(place: str | Path, allow_network: bool = False) -> Path:
    """Return a server's address as a path; refuse one that documents may not be sent to.

    Raises:
        UsageError: it is no address, is not encrypted, or is on another machine and the network is
            not allowed.
    """
    url = _split(place)
    if not is_loopback(url.hostname or "") and not (allow_network and url.scheme == "https"):
        raise UsageError(
            *wording(
                "network" if url.scheme == "https" else "unencrypted",
                address=_printable_address(url),
            )
        )
    _PERMITTED.add(url.netloc)
    return Path(place)


def _split(place: str | Path) -> SplitResult:
    """Return the parts of an address, one of whose slashes is missing; refuse other forms.

    It may hold a password, and is not repeated.
    """
    try:
        url = urlsplit(typed(place))
        host = _host_of(url)
        port = url.port
    except ValueError:
        raise UsageError(*wording("form")) from None
    if not host or port == 0 or "@" in url.netloc or url.query:
        raise UsageError(*wording("form"))
    if not _SIGNS.fullmatch(host) or not _SIGNS.fullmatch(url.path):
        raise UsageError(*wording("signs"))
    return url


def _host_of(url: SplitResult) -> str:
    """Return the host as it is looked up: in ASCII, of labels of at most 63 letters.

    Raises:
        UnicodeError: it is none.
    """
    return (url.hostname or "").encode("idna").decode("ascii")


def _printable_address(url: SplitResult) -> str:
    """Return scheme, host and path of an address in printable letters, without its rest."""
    return printable(f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}")


class Server:
    """A client of one server.

    Args:
        place: its address.

    Raises:
        UsageError: documents may not be sent there, or what should be its key is none.
    """

    def __init__(self, place: str | Path) -> None:
        """Take the address and the key of a server; refuse one that is not permitted."""
        self._url = url = _split(place)
        self.address = _printable_address(url)
        self.wanted = url.fragment
        self._base = url.path.rstrip("/")
        self._origin = Origin(_host_of(url), url.port, url.scheme == "https")
        if url.netloc not in _PERMITTED:
            permit(place)
        self._key = os.environ.get(KEY) or (
            os.environ.get(OWNED_KEY, "") if url.hostname == OWNER else ""
        )
        if not re.fullmatch("[!-~]*", self._key):
            raise UsageError(*wording("key", name=KEY))

    def version(self) -> str:
        """Return the version that vLLM states; empty where the server states none."""
        try:
            version = self.call(
                "/version",
                lambda reply: reply["version"] + "",
                None,
                self._base.removesuffix("/v1"),
            )
        except DocauditError:
            return ""
        return str(version) if _VERSION.fullmatch(version) else ""

    def call(
        self, path: str, read: Callable[[Any], Any], body: Any = None, base: str | None = None
    ) -> Any:
        """Return what is read of the reply to a request.

        It is sent again while the server is busy.

        Args:
            path: behind `base`.
            read: takes what is wanted from the JSON of the reply.
            body: what is sent; None: nothing.
            base: a path; None: that of the address.

        Raises:
            TargetError: the server refuses, redirects, or replies with something else.
            EngineError: it cannot be reached, or stays busy.
        """
        content = None if body is None else json.dumps(body).encode()
        for pause in (*PAUSES, None):
            reply = self._send((self._base if base is None else base) + path, content)
            if reply.status not in BUSY:
                break
            if pause is None:
                why = f"HTTP {reply.status}" if reply.status else reply.trouble
                raise EngineError(
                    *wording("busy", address=self.address, tries=len(PAUSES) + 1, why=why)
                )
            asked = float(reply.wait) if re.fullmatch("[0-9]{1,6}", reply.wait) else pause
            time.sleep(min(asked, LONGEST_PAUSE))
        if reply.status != 200:
            raise self._refusal(reply)
        try:
            return read(cleaned(json.loads(reply.content)))
        except _NO_REPLY:
            raise TargetError(*wording("reply", address=self.address, path=path)) from None

    def _send(self, target: str, content: bytes | None) -> HttpReply:
        """Send one request with the key, and return the reply; refuse one without bounds."""
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            return self._origin.exchange(target, content, headers)
        except BoundlessError:
            raise TargetError(*wording("size", address=self.address)) from None

    def keyless(self, text: str) -> str:
        """Return a text of the server with the key removed, in case the server repeats it."""
        return text.replace(self._key, "[key]") if self._key else text

    def _refusal(self, reply: HttpReply) -> TargetError:
        """Return the error that tells of a reply with a status of failure.

        The words of the server can repeat a page, and are not printed.
        """
        if 300 <= reply.status < 400:
            return TargetError(*wording("redirected", address=self.address, status=reply.status))
        hint = HINTS.get(str(reply.status), HINTS["404"])
        refusal = TargetError(f"{self.address}: HTTP {reply.status}", hint)
        refusal.story = self.keyless(printable(reply.content.decode("utf-8", "replace")))
        return refusal


class ServedModel(CheckpointFolder):
    """What a server says of a model, in the place of a folder, of which no file is hashed.

    Its configuration holds the address, and what the server lists of the model.

    Attributes:
        opener: makes the target of it.
    """

    opener: ClassVar[Opener]

    def __str__(self) -> str:
        """Return the server's address with the model's name behind "#"."""
        return f"{self.config['address']}#{self.config['id']}"

    @property
    def sha256(self) -> str:
        """Return the hash of what the server says of the model, which proves no weights."""
        return hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest()

    @property
    def weights(self) -> frozenset[bytes]:
        """Return the server's hash in the place of weights, so no model is its own reference."""
        return frozenset({bytes.fromhex(self.sha256)})


def open_served(place: Path) -> ServedModel:
    """Ask a server for its models, and return the one that the address names.

    Raises:
        DocauditError: the server cannot be asked, or has no such model.
    """
    server = Server(place)
    found = server.call(
        "/models", lambda said: {server.keyless(one["id"]): one for one in said["data"]}
    )
    if not all(_NAME.fullmatch(name) for name in found):
        raise TargetError(*wording("no_name", address=server.address))
    name = server.wanted or next(iter(found), "")
    if name not in found or (len(found) > 1 and not server.wanted):
        key = "no_model" if server.wanted else "several"
        names = ", ".join(found)[:MOST_LETTERS]
        raise UsageError(
            *wording(key, address=server.address, model=printable(name), n=len(found), names=names)
        )
    said = {key: found[name].get(key) for key in ("root", "owned_by", "max_model_len")}
    said |= {"model_type": SERVED, "address": server.address, "id": name}
    return ServedModel(place, said, TrainingProgress())


def _system_turns(system: str | None) -> list[dict[str, str]]:
    """Return the system turn of a chat, where it has one."""
    return [] if system is None else [{"role": "system", "content": system}]


def _settings_for(listed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a request to a model that a server lists."""
    settings = {
        "model": listed["id"],
        "temperature": 0,
        "seed": 0,
        "max_tokens": LONGEST_ANSWER,
    }
    if listed["owned_by"] == "vllm":
        # Else it takes one from the model's generation_config.json, against the words of the page.
        settings["repetition_penalty"] = 1.0
    return settings


def _longest(n_tokens: object) -> int:
    """Return the length of the longest row that a server states; 0 where it states none."""
    return n_tokens if isinstance(n_tokens, int) and 0 < n_tokens < 2**31 else 0


class RemoteTarget(interface.NoModel):
    """A black box behind a server.

    It is given the page's image; its words where [recipe] prompt has a place for text, or documents
    have no images.

    Attributes:
        untested: what nobody knows of it, for a record.
        diagnostics: the share of questions with the same answer when they were asked again.

    Args:
        folder: the model.
        corpus: says how it is asked.
        device: device that local references are loaded on.
        rows: requests on their way at a time; None: `PARALLEL`.

    Raises:
        TargetError: the data set is for models that write pages.
    """

    diagnostics: tuple[Diagnostic, ...] = ()
    untested: tuple[str, ...]

    def __init__(
        self, folder: CheckpointFolder, corpus: Corpus, device: str, rows: int | None = None
    ) -> None:
        """Take a served model, and choose prompt and settings of its requests."""
        recipe = corpus.manifest.recipe
        listed = folder.config
        if corpus.manifest.task.kind == "parsing":
            raise TargetError(*wording("writes_pages", folder=folder))
        self.answers = frozenset({interface.Answer})
        self.batch_rows = rows or PARALLEL
        self.server = Server(folder.path)
        self._lock = Lock()
        self._asked = [document for document in corpus.documents if document.questions]
        has_images = all(document.image for document in self._asked)
        self._reads = TEXT in (recipe.prompt or "") or not has_images
        self._prompt = recipe.prompt or (CHAT_PROMPT if self._reads else QUESTION)
        self._system = _system_turns(recipe.system)
        self._settings = _settings_for(listed)
        address = self.server.address
        self.card = TargetCard(
            name=listed["id"],
            family=SERVED,
            task="question-answering",
            architecture=WORDS["black_box"].format(n=LONGEST_ANSWER, address=address),
            parameters=0,
            vocabulary=0,
            max_tokens=_longest(listed["max_model_len"]),
            sha256=folder.sha256,
            device=device,
            dtype="unknown",
        )
        self.untested = (WORDS["weights"].format(model=listed["id"], address=address),)

    def accepts_start(
        self, start: CheckpointFolder, own_folder: CheckpointFolder, *, denoises: bool
    ) -> str | None:
        """Return why a fine-tuning start cannot answer the model's questions, else None.

        Such models begin as such, unless they begin as T5.
        """
        if denoises and not same_type(start, own_folder):
            return super().accepts_start(start, own_folder, denoises=denoises)
        return None

    def check(self, corpus: Corpus) -> None:
        """Refuse a corpus that the model cannot be asked about, and ask some questions twice."""
        if self._reads:
            refuse_documents(
                [document for document in self._asked if not document.words],
                "no words; the model reads text",
                NO_WORDS,
            )
        examples = self.examples(corpus)
        alike = [
            first.text == again.text
            for first, again in zip(self.ask(examples), self.ask(examples), strict=True)
        ]
        if alike:
            share = sum(alike) / len(alike)
            meaning = WORDS["repeated"].format(n=len(alike))
            self.diagnostics = (Diagnostic("answers repeated", share, meaning),)
        if not all(alike):
            self.untested += (WORDS["repeats"].format(n=alike.count(False), of=len(alike)),)

    def examples(self, corpus: Corpus) -> list[interface.Answer]:
        """Return questions about documents from all over a data set, to try the server."""
        chosen = self._asked[:: max(1, len(self._asked) // EXAMINED)][:EXAMINED]
        return [
            interface.Answer(page_view(corpus, one), one.questions[0].question) for one in chosen
        ]

    def ask(self, queries: Sequence[interface.Query[Any]]) -> Any:
        """Ask the server; several requests are on their way at a time."""
        interface.type_asked(self, queries)
        with ThreadPoolExecutor(self.batch_rows) as pool:
            return list(pool.map(self._reply, queries))

    def _reply(self, query: interface.Answer) -> interface.Reply:
        """Ask the server one question, and return its reply."""
        # Images are opened by one thread at a time, and those that wait are not held.
        with self._lock:
            turn = {"role": "user", "content": self._content(replace(query.view), query.question)}
        body = {**self._settings, "messages": [*self._system, turn]}
        text, ended = self.server.call("/chat/completions", _read_choice, body)
        return interface.Reply(self.server.keyless(text).strip(), math.nan, 0, ended)

    def _content(self, view: PageView, question: str) -> Any:
        """Return the content of a user's turn: the page and the question about it."""
        if self._reads or view.image is None:
            return TextPrompt(self._prompt if self._reads else CHAT_PROMPT).fill(
                text_of_words(view.words), question
            )
        view.image.save(png := io.BytesIO(), "PNG")
        url = f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"
        asked = self._prompt.replace(QUESTION, question)
        return [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": asked}]


def _read_choice(said: Any) -> tuple[str, bool]:
    """Return a completion's text, empty for a refusal; and whether the model ended it."""
    (choice,) = said["choices"]
    text = choice["message"]["content"]
    return "" if text is None else text + "", choice["finish_reason"] != "length"


ServedModel.opener = Opener(lambda *given: cast("Checkpoint", RemoteTarget(*given)))


class _Relayed(AnsweringTarget):
    """A checkpoint whose answers a server generates; its scores are its own."""

    served: RemoteTarget

    def ask(self, queries: Sequence[interface.Query[Any]]) -> Any:
        """Ask the server for answers, and the local model for all else."""
        generated = interface.type_asked(self, queries) is interface.Answer
        return self.served.ask(queries) if generated else super().ask(queries)


def relay(target: Checkpoint, place: str, corpus: Corpus) -> Checkpoint:
    """Return a checkpoint that asks a server for answers, and its local model for all else.

    A server of the same model generates its answers.

    Raises:
        DocauditError: the server gives none, answers otherwise, or the checkpoint answers no
            questions.
    """
    if type(target) is not AnsweringTarget:
        raise UsageError(*wording("not_answering", architecture=target.card.architecture))
    try:
        folder = open_served(permit(place))
    except UsageError as error:
        raise UsageError(error.problems, WORDS["here"]) from None
    served = RemoteTarget(folder, corpus, target.card.device)
    served.check(corpus)
    examples = served.examples(corpus)
    pairs = zip(target.ask(examples), served.ask(examples), strict=True)
    # A server's controls are replaced where they come in.
    alike = [fold(cleaned(own.text)) == fold(other.text) for own, other in pairs]
    if sum(alike) < LEAST_ALIKE * len(alike):
        raise TargetError(*wording("unlike", folder=folder, n=sum(alike), of=len(alike)))
    agreement = Diagnostic(
        "answers alike", sum(alike) / max(1, len(alike)), WORDS["alike"].format(n=len(alike))
    )
    software = (
        f"vLLM {served.server.version()}".rstrip()
        if folder.config["owned_by"] == "vllm"
        else "a server"
    )
    words = {
        "architecture": target.card.architecture,
        "software": software,
        "address": served.server.address,
    }
    relayed = copy(target)
    relayed.__class__ = _Relayed
    relayed.card = replace(target.card, architecture=WORDS["relayed"].format(**words))
    vars(relayed).update(
        served=served, diagnostics=(*served.diagnostics, agreement), untested=served.untested[1:]
    )
    return relayed
