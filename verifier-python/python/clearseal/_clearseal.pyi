from collections.abc import Callable

class NativeSession:
    def __init__(
        self,
        urls: list[str],
        policy: bytes | None,
        allow_simulated: bool,
        timeout: float,
        candidates: int,
        model: tuple[str, bytes] | None = None,
    ) -> None: ...
    def connect(self) -> str: ...
    def models(self) -> list[tuple[str, str, bytes, int, int, bool]]: ...
    def states(self) -> list[tuple[str, str, int | None]]: ...
    def set_policy(self, policy: bytes) -> tuple[int, int]: ...
    def follow_policy(self, path: str) -> None: ...
    def policy_problem(self) -> tuple[str, str, str] | None: ...
    def fetch(
        self, method: str, path: str, headers: list[tuple[str, str]], content: bytes, timeout: float | None
    ) -> Answer: ...
    def begin(
        self,
        method: str,
        path: str,
        headers: list[tuple[str, str]],
        content: bytes,
        timeout: float | None,
        done: Callable[[Answer | Exception], None],
    ) -> Task: ...
    def close(self) -> None: ...

class Answer:
    """A decrypted answer with a verified receipt."""

    @property
    def status(self) -> int:
        """HTTP status of the decrypted response."""
    @property
    def headers(self) -> list[tuple[str, str]]:
        """Headers of the decrypted response."""
    @property
    def content(self) -> bytes:
        """Content of the decrypted response."""
    @property
    def has_receipt(self) -> bool:
        """Whether there is a receipt, which means that an inference took place."""
    def bundle(self, *, content: bool = False) -> str | None:
        """The audit bundle as JSON, for `verify_receipt`; `content` adds request and answer, which open the receipt's commitments.
        `None` if there is no receipt."""
    def proofs(self) -> tuple[str, list[str]]:
        """For an answer with embeddings or scores: one line of evidence, which all of them share, and one line of proof for each
        (docs/RECEIPTS.md). With both lines, `verify_vector` and `clearseal verify vector` verify one without the others.

        Raises:
            ClearsealError: The answer has neither, or the enclave committed to different ones (`ITEMS_ROOT_MISMATCH`)."""

class Task:
    def cancel(self) -> None: ...

def judge_document(
    document: bytes,
    policy: bytes,
    nonce: bytes | None,
    manifest: bytes | None,
    crls: bytes,
    at_ms: int | None,
    allow_simulated: bool,
    allow_authentic: bool,
) -> str: ...
def judge_bundle(bundle: str, policy: bytes, allow_simulated: bool) -> tuple[str, str]: ...
def judge_vector(row: str, proof: str, policy: bytes, allow_simulated: bool) -> tuple[str, str]: ...
