"""A trust policy that is replaced while a session is open."""

from __future__ import annotations

import json
import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, Service
from test_session import embed

import clearseal


def without_release(service: Service) -> dict[str, Any]:
    """A policy that accepts a different image."""
    policy: dict[str, Any] = json.loads(service.policy())
    policy["name"] = "without"
    policy["releases"][0]["pcrs"]["0"] = "ab" * 48
    return policy


def replace(path: Path, policy: bytes) -> None:
    path.with_suffix(".next").write_bytes(policy)
    os.replace(path.with_suffix(".next"), path)


def test_nothing_is_sent_under_a_release_that_was_withdrawn(host: Host, service: Service) -> None:
    with clearseal.connect(host.url, policy=service.policy(), allow_simulated=True) as session:
        assert embed(session) == 200
        sent = host.paths.count("/v1/gateway")
        session.reload_policy(without_release(service))
        assert session.upstreams[0].state == "withdrawn"
        with pytest.raises(clearseal.Withdrawn) as withdrawn:
            embed(session)
        assert withdrawn.value.code == "POLICY_WITHDRAWN"
        assert withdrawn.value.report.code == "PCR_MISMATCH"
        copy = pickle.loads(pickle.dumps(withdrawn.value))
        assert (copy.code, str(copy)) == ("POLICY_WITHDRAWN", str(withdrawn.value))
        assert host.paths.count("/v1/gateway") == sent
        session.reload_policy(service.policy())
        assert embed(session) == 200


def test_what_is_not_a_policy_changes_nothing(service: Service) -> None:
    with clearseal.connect(service.url, policy=service.policy(), allow_simulated=True) as session:
        with pytest.raises(clearseal.ClearsealError) as unusable:
            session.reload_policy(b"{}")
        assert unusable.value.code == "POLICY_UNREADABLE"
        with pytest.raises(ValueError, match="path"):
            session.reload_policy()
        assert embed(session) == 200
    with pytest.raises(clearseal.ClearsealError) as closed:
        session.reload_policy(service.policy())
    assert closed.value.code == "SESSION_CLOSED"


def test_the_file_is_read_again_when_asked(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_bytes(service.policy())
    with clearseal.connect(service.url, policy=path, allow_simulated=True) as session:
        replace(path, json.dumps(without_release(service)).encode())
        assert embed(session) == 200
        session.reload_policy()
        with pytest.raises(clearseal.Withdrawn):
            embed(session)


def test_a_file_is_followed(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_bytes(service.policy())

    def wait_for(done: Any) -> None:
        end = time.monotonic() + 60
        while not done():
            assert time.monotonic() < end
            time.sleep(0.05)

    with clearseal.connect(service.url, policy=path, allow_simulated=True, follow_policy=True) as session:
        replace(path, b"{")
        wait_for(lambda: session.policy_problem is not None)
        assert session.policy_problem is not None
        assert session.policy_problem.code == "POLICY_UNREADABLE"
        assert embed(session) == 200
        replace(path, json.dumps(without_release(service)).encode())
        wait_for(lambda: session.upstreams[0].state == "withdrawn")
        assert session.policy_problem is None
        with pytest.raises(clearseal.Withdrawn):
            embed(session)
    with pytest.raises(ValueError, match="path"):
        clearseal.connect(service.url, policy=service.policy(), follow_policy=True)
