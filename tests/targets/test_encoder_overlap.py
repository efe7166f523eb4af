"""The next batch is prepared while the device computes, so that a GPU does not wait for Python."""

from typing import Any

import torch
from test_encoders_contract import opened, pages_of


class Recorded(torch.nn.Module):
    """An encoder that writes down when a pass starts; its words are embedded as before."""

    def __init__(self, encoder: Any, events: list[str]) -> None:
        super().__init__()
        self.encoder = encoder
        self.events = events

    def forward(self, **inputs: Any) -> Any:
        self.events.append("pass")
        return self.encoder(**inputs)


def test_the_pages_of_the_next_pass_are_made_before_the_last_one_is_read(checkpoints):
    target = opened(checkpoints("layoutlm", "token-classification"))
    page = pages_of(target)[0][0]
    events: list[str] = []
    target.forward.batch.size = 1  # one row a pass
    target.forward._encoder = Recorded(target.forward._encoder, events)

    def page_of(row: int) -> Any:
        events.append(f"page {row}")
        return page

    with torch.inference_mode():
        for (row,), _ in target.forward.hidden([len(page.ids)] * 3, page_of):
            events.append(f"read {row}")

    first = ["page 0", "pass", "page 1", "read 0"]
    assert events == [*first, "pass", "page 2", "read 1", "pass", "read 2"]
