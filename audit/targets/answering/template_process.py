"""The process that renders chat templates, run as a program.

`templates.py` beside it is its other side.

It reads a line of JSON for each text, and answers with one. The kernel ends it where a template
takes too long, and refuses it memory; nothing that a template does can change that. It imports no
torch.

Its arguments are seconds of the processor for one text, bytes of memory beyond what it has when it
starts, and letters of a text.
"""

import json
import math
import resource
import sys
from typing import Any

from transformers.utils import chat_template_utils


def limit_memory(more: int) -> None:
    """Cap this process's address space at what it has now and `more` bytes.

    Where a system does not, the time and length of texts bound it.
    """
    # A core file would hold pages.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            pages = int(stream.read().split()[0])
        most = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except (OSError, ValueError):
        pass


def limit_time(seconds: int) -> None:
    """Cap this process's CPU time at what it has used and so many `seconds` more.

    The kernel counts whole seconds, which are rounded up: a template has at least what it is
    promised.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime
    hardest = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used) + seconds, hardest))


def answer(request: dict[str, Any], most_letters: int) -> dict[str, str]:
    """Render the template of a request, and return its text or why there is none.

    Args:
        request: "template", and its "variables".
        most_letters: largest number of letters of the text.

    Returns:
        "text"; or "limit", that the template exceeds; or "failure", with what was raised.
    """
    try:
        text = chat_template_utils._compile_jinja_template(request["template"]).render(
            **request["variables"]
        )
    except MemoryError:
        return {"limit": "memory"}
    except Exception as error:  # noqa: BLE001 (whatever a template raises is the answer)
        return {"failure": f"{type(error).__name__}: {error}"}
    if len(text) > most_letters:
        return {"limit": "letters"}
    return {"text": text}


def main() -> None:
    """Answer requests, a JSON line each of standard input, with JSON lines of output."""
    seconds, memory, most_letters = map(int, sys.argv[1:])
    limit_memory(memory)
    for line in sys.stdin.buffer:
        limit_time(seconds)
        sys.stdout.write(json.dumps(answer(json.loads(line), most_letters)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
