"""Adapter for epsilon-attestation-verifier."""

import base64
import datetime
import json
import logging
import sys
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from epsilon_verifier import verifier

logging.disable(logging.CRITICAL)


class Clock(datetime.datetime):
    """The verifier appraises the chain as of `now`, so `now` returns the question's time."""

    moment = None

    @classmethod
    def now(cls, tz=None):
        return cls.moment


verifier.datetime = Clock


def judge(request):
    policy = request["policy"] or {}
    pcrs = policy.get("pcrs", {})
    # It cannot check a nonce or an age, and only the first three registers.
    if policy.get("nonce") or policy.get("max_age_seconds") or set(pcrs) - {"0", "1", "2"}:
        return "unsupported", ""
    Clock.moment = datetime.datetime.fromtimestamp(request["time"] / 1000, tz=datetime.timezone.utc)
    try:
        result = verifier.verify_attestation(
            request["document"],
            expected_pcr0=pcrs.get("0"),
            expected_pcr1=pcrs.get("1"),
            expected_pcr2=pcrs.get("2"),
            aws_root_cert_path=root(request["root"]),
        )
    except Exception as error:  # It documents a result, never an exception.
        return "error", repr(error)
    return ("accept" if result.valid else "refuse"), result.error or ""


ROOTS = {}


def root(der):
    """Writes the root to a file, which is how the verifier takes it."""
    if der not in ROOTS:
        certificate = x509.load_der_x509_certificate(base64.b64decode(der))
        file = tempfile.NamedTemporaryFile(suffix=".pem")
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
        file.flush()
        ROOTS[der] = file
    return ROOTS[der].name


for line in sys.stdin:
    request = json.loads(line)
    verdict, code = judge(request)
    print(json.dumps({"id": request["id"], "verdict": verdict, "code": code}), flush=True)
