"""Sends random valid and invalid requests to every route of `openapi.json`, and checks the answers against it.

    python run.py SERVER_URL ADMIN_KEY [SEED [PHASES]]

Needs a Python with the packages of `packages/requirements-properties.txt`. The server must answer no request with a
5xx, with a status or content type that its route does not document, or with a body that does not match the schema.
The program first creates one thing of each kind, and gives its id to the generator: most requests would otherwise end
with 404. The key has to be an admin key, because some routes span environments. Use an empty database: the requests
delete things. PHASES are `coverage`, which sends the boundary values of each field, and `fuzzing`, which sends random
ones, separated by a comma; both by default.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request
import uuid

FOLDER = pathlib.Path(__file__).parent
REPOSITORY = FOLDER.parents[4]
DEFAULT_SEED = "1"
DEFAULT_PHASES = "coverage,fuzzing"

# The share of requests that name a thing which exists.
KNOWN = 0.8

# Things that requests to delete them may have. One for each of them would soon be gone.
SPARE = 30


class Api:
    def __init__(self, url, key):
        self.url, self.key = url, key

    def post(self, path, body):
        request = urllib.request.Request(f"{self.url}/api/v1{path}", method="POST", data=json.dumps(body).encode())
        request.add_header("authorization", f"Bearer {self.key}")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or b"null")


def create(api):
    """Creates one thing of each kind, and returns the values of path parameters by name."""
    unique = lambda: f"x{uuid.uuid4().hex}"
    application = api.post("/app", {"name": "Acme", "uid": unique()})
    path = f"/app/{application['id']}"
    kind, queue, schedule, slot = unique(), unique(), unique(), unique()
    api.post("/event-type", {"name": kind, "description": "Paid"})
    # A disabled endpoint gets no messages, so nothing is sent to this address.
    endpoint = api.post(f"{path}/endpoint", {"url": "https://example.com/hook", "uid": unique(), "disabled": True})
    message = api.post(f"{path}/msg", {"eventType": kind, "payload": {}, "once": {"key": slot}})
    job = api.post("/job", job_of(queue))
    return {
        "app_id": [application["id"], application["uid"]],
        "endpoint_id": [endpoint["id"], endpoint["uid"]],
        "msg_id": [message["id"]],
        "event_type_name": [kind],
        "key": [slot],
        "queue": [queue],
        "job_id": [job["id"]],
        "batch_id": [api.post("/batch", {"name": "b", "application": application["id"], "prefix": "b"})["id"]],
        "schedule": [api.post("/schedule", {"name": schedule, "everySeconds": 3600, "job": job_of(queue)})["name"]],
        "alert": [api.post("/alert", {"name": unique(), "signal": "dead", "threshold": 100})["name"]],
        "worker_id": [api.post("/worker", {"name": unique(), "queues": [queue]})["id"]],
    }


def job_of(queue):
    return {"kind": "a", "queue": queue, "payload": {}}


def create_spare(api):
    """Creates things that requests may delete."""
    return {"app_id": [api.post("/app", {"name": "Spare"})["id"] for _ in range(SPARE)]}


def settings(known, spare):
    """Returns the settings file with the values of path parameters."""
    lines = [(FOLDER / "schemathesis.toml").read_text()]
    for name, values in {**known, **{f"spare_{name}": values for name, values in spare.items()}}.items():
        lines.append(f"[dictionaries.{name}]\nvalues = {json.dumps(values)}\n")
    lines.append("[parameters]")
    lines += [f'"path.{name}" = {{ dictionary = "{name}", probability = {KNOWN} }}' for name in known]
    lines.append('\n[[operations]]\ninclude-name = "DELETE /api/v1/app/{app_id}"\n[operations.parameters]')
    lines.append(f'"path.app_id" = {{ dictionary = "spare_app_id", probability = {KNOWN} }}')
    return "\n".join(lines) + "\n"


def main():
    url, key, *given = sys.argv[1:]
    seed, phases = (*given, *(DEFAULT_SEED, DEFAULT_PHASES)[len(given) :])
    api = Api(url, key)
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "schemathesis.toml")
        config.write_text(settings(create(api), create_spare(api)))
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"]
        command += ["--seed", seed, "--phases", f"examples,{phases}"]
        command += ["--url", url, "--header", f"Authorization: Bearer {key}", str(REPOSITORY / "openapi.json")]
        sys.exit(subprocess.run(command, cwd=folder).returncode)


if __name__ == "__main__":
    main()
