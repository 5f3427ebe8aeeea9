"""What a client did wrong, as an HTTP status and one sentence; the server goes on."""

from __future__ import annotations


class Refusal(Exception):
    """The answer to a request that cannot be met; `retry_after` is in whole seconds, 0 for none."""

    def __init__(self, status: int, sentence: str, *, retry_after: int = 0) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after


# The same for what is not there and for what is another student's: neither is to be told apart.
NO_SUBMISSION = "There is no such submission of yours."
