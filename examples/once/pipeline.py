"""A pipeline that notifies its users once, from any number of replicas.

Run it against a server with an application that has an endpoint:

    EVERHOOK_URL=http://127.0.0.1:8071 EVERHOOK_KEY=ehk_… python3 pipeline.py <application> <run>

Every replica of the controller watches the same run and reports every event. The once-slot of the run decides which
report becomes a message. See docs/once.md.
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
    """Calls the API and returns the status and the response."""
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
        """Reports the outcome from every replica and prints the number of accepted reports."""
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
        # Every replica gets the id of the message that notified the users.
        assert len({answer["id"] for _, answer in answers}) == 1
        print(f"{outcome}: {sent} sent, {REPLICAS - sent} suppressed")

    def reset(self):
        """Resets the slot, like `everhook once reset <application> <run>`."""
        status, _ = call("DELETE", f"/app/{self.application}/once/{self.name}")
        print(f"reset: {status}")


def main(application, name):
    run = Run(application, name)
    # A task fails. All replicas report it, and one message is sent.
    run.report("failed", phase=1)
    # The other tasks end. "completed" would contradict the first message.
    run.report("completed", phase=1)
    # The task is retried. Attempt 2 of the run opens phase 2.
    run.report("failed", phase=2)
    # A delayed replica reports attempt 1 again. Its phase is stale.
    run.report("failed", phase=1)
    # An operator skips the task. This is no new attempt, so the operator resets the slot.
    run.reset()
    run.report("completed")
    # A repeated report is suppressed.
    run.report("completed")
    _, slot = call("GET", f"/app/{application}/once/{name}")
    print(f"phase {slot['phase']}, {slot['suppressedCount']} calls suppressed")


if __name__ == "__main__":
    main(*sys.argv[1:])
