"""A pipeline that tells its users once how it went, from any number of replicas.

Run it against a server with an application that has an endpoint:

    EVERHOOK_URL=http://127.0.0.1:8071 EVERHOOK_KEY=ehk_… python3 pipeline.py <application> <run>

Every replica of the controller watches the same run and reports what it sees. It does not ask who reports: the slot of the run
decides. See docs/once.md.
"""

import json
import os
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

URL = os.environ.get("EVERHOOK_URL", "http://127.0.0.1:8071")
KEY = os.environ["EVERHOOK_KEY"]
REPLICAS = 3


def call(method, path, body=None):
    """Calls the API; returns status and answer."""
    request = urllib.request.Request(f"{URL}/api/v1{path}", method=method)
    request.add_header("authorization", f"Bearer {KEY}")
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, data, timeout=30) as answer:
        content = answer.read()
        return answer.status, json.loads(content) if content else None


class Run:
    """One run of the pipeline, as its replicas see it."""

    def __init__(self, application, name):
        self.application, self.name = application, name

    def report(self, outcome, phase=None):
        """Every replica reports the outcome; returns how many of them were heard."""
        once = {"key": self.name} if phase is None else {"key": self.name, "phase": phase}
        message = {
            "eventType": f"pipeline.{outcome}",
            "payload": {"run": self.name, "outcome": outcome},
            "once": once,
        }
        path = f"/app/{self.application}/msg"
        with ThreadPoolExecutor(REPLICAS) as replicas:
            answers = list(replicas.map(lambda _: call("POST", path, message), range(REPLICAS)))
        sent = sum(status == 202 for status, _ in answers)
        assert all(answer.get("suppressed", False) == (status == 200) for status, answer in answers)
        # Heard or not, every replica knows which message told the users.
        assert len({answer["id"] for _, answer in answers}) == 1
        print(f"{outcome}: {sent} sent, {REPLICAS - sent} suppressed")

    def reset(self):
        """What an operator does by hand: `everhook once reset <application> <run>`."""
        status, _ = call("DELETE", f"/app/{self.application}/once/{self.name}")
        print(f"reset: {status}")


def main(application, name):
    run = Run(application, name)
    # A task fails. All replicas see it, one message goes out.
    run.report("failed", phase=1)
    # The rest of the pipeline ends after that; "completed" would contradict what was told.
    run.report("completed", phase=1)
    # The task is retried: attempt 2 of the run is phase 2, and opens by itself.
    run.report("failed", phase=2)
    # A replica that slept through the retry reports attempt 1 once more: stale.
    run.report("failed", phase=1)
    # An operator skips the task. That is no new attempt, so the slot is reset by hand.
    run.reset()
    run.report("completed")
    # Nothing is told twice, whoever asks.
    run.report("completed")
    _, slot = call("GET", f"/app/{application}/once/{name}")
    print(f"phase {slot['phase']}, {slot['suppressedCount']} calls suppressed")


if __name__ == "__main__":
    main(*sys.argv[1:])
