"""A worker that runs jobs, with only Python's standard library. Copy it and write your own handlers.

    EVERHOOK_URL=http://127.0.0.1:8071 EVERHOOK_KEY=ehk_… python3 worker.py email reports

runs jobs from the queues `email` and `reports`. Try it with

    everhook job enqueue email greet '{"name": "Ada"}'

A worker keeps its jobs while it sends heartbeats. Every report about a job carries the job's epoch, which identifies
the lease. A job may run more than once, because a worker can crash after finishing the job but before reporting it.
Handlers must be safe to repeat. On SIGTERM the worker takes no new jobs, finishes its running jobs, and signs off.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

URL = os.environ.get("EVERHOOK_URL", "http://127.0.0.1:8071")
KEY = os.environ["EVERHOOK_KEY"]
LEASE_SECONDS = float(os.environ.get("LEASE_SECONDS", "30"))
SLOTS = 4  # concurrent jobs
WAIT_SECONDS = 5  # maximum wait of one lease request; also the longest delay of a stop

HANDLERS = {}


def handles(kind):
    """Registers a function as the handler of a kind. It gets the job; its return value becomes the job's result."""
    return lambda function: HANDLERS.setdefault(kind, function)


class Snooze(Exception):
    """Raised by a handler to run again later, without using an attempt."""

    def __init__(self, seconds):
        super().__init__(seconds)
        self.seconds = seconds


# ---- The handlers: replace them with your own. ----


@handles("greet")
def greet(job):
    job.log(f"attempt {job.attempt} of {job.max_attempts}")
    job.progress(50, "thinking of a greeting")
    return {"greeting": f"Hello, {job.payload['name']}!"}


@handles("flaky")
def flaky(job):
    if job.attempt == 1:
        raise RuntimeError("the first attempt always fails")  # any exception fails the attempt


@handles("later")
def later(job):
    if time.time() < job.payload["notBefore"]:
        raise Snooze(1)


@handles("patient")
def patient(job):
    for step in range(job.payload["steps"]):
        if job.gone.is_set():  # the job is cancelled, or its lease is lost: later results are not recorded
            raise RuntimeError(f"stopped before step {step}")
        job.progress(100 * step // job.payload["steps"])
        time.sleep(0.1)


# ---- The worker: no changes needed. ----


class Refused(Exception):
    """An error response."""

    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status, self.code = status, body.get("code")


def call(path, body, method="POST"):
    """Calls the API and returns the response."""
    request = urllib.request.Request(f"{URL}/api/v1{path}", json.dumps(body).encode(), method=method)
    request.add_header("authorization", f"Bearer {KEY}")
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS + 30) as answer:
            return None if answer.status == 204 else json.load(answer)
    except urllib.error.HTTPError as error:
        content = error.read()
        raise Refused(error.code, json.loads(content) if content.startswith(b"{") else {}) from error


def insist(path, body):
    """Calls the API and retries while the server is unavailable. Use it only for calls that are safe to repeat."""
    for pause in (0.5, 1, 2, 5, 10):
        try:
            return call(path, body)
        except Refused as refused:
            if refused.status < 500:
                raise
        except OSError:
            pass
        time.sleep(pause)
    return call(path, body)


class Job:
    """One attempt at a job."""

    def __init__(self, worker_id, leased):
        self.worker_id = worker_id
        self.id, self.epoch, self.kind, self.payload = (leased[key] for key in ("id", "epoch", "kind", "payload"))
        self.attempt, self.max_attempts = leased["attempt"], leased["maxAttempts"]
        self.lines = []
        self.gone = threading.Event()

    def log(self, line):
        """Adds a line to the attempt log."""
        self.lines.append(line)

    def progress(self, percent, text=""):
        """Reports progress for display. The job continues if the report fails."""
        try:
            self.say("progress", call, percent=percent, text=text)
        except (OSError, Refused):
            pass

    def say(self, what, how=insist, **more):
        return how(f"/job/{self.id}/{what}", {"workerId": self.worker_id, "epoch": self.epoch, **more})

    def run(self):
        """Runs the handler and reports the result."""
        try:
            what, more = "complete", {"result": HANDLERS[self.kind](self)}
        except Snooze as snooze:
            what, more = "snooze", {"seconds": snooze.seconds}
        except Exception as error:
            self.lines.extend(traceback.format_exc().splitlines())
            what, more = "fail", {"error": f"{type(error).__name__}: {error}"}
        try:
            outcome = self.say(what, log=self.lines, **more)["state"]
        except (OSError, Refused) as error:
            # On a conflict, the lease is lost. On other errors the lease expires, and another worker runs the job.
            outcome = f"not recorded, {error}"
        print(f"{self.kind} {self.id}: {outcome}", flush=True)


class Worker:
    """Leases and runs jobs, and sends heartbeats."""

    def __init__(self, queues):
        self.queues = queues
        self.held = {}  # jobs by id and epoch
        self.changed = threading.Condition()
        self.stopping = threading.Event()
        self.register()

    def register(self):
        name = f"{socket.gethostname()}:{os.getpid()}"
        body = {"name": name, "queues": self.queues, "kinds": list(HANDLERS), "leaseSeconds": LEASE_SECONDS}
        worker = insist("/worker", body)
        self.id, self.lease_seconds = worker["id"], worker["leaseSeconds"]
        print(f"registered {self.id}", flush=True)

    def holding(self):
        with self.changed:
            return [{"id": id, "epoch": epoch} for id, epoch in self.held]

    def run(self):
        threading.Thread(target=self.keep_alive, daemon=True).start()
        with ThreadPoolExecutor(SLOTS) as slots:  # leaving the block waits for running jobs
            while not self.stopping.is_set():
                with self.changed:
                    self.changed.wait_for(lambda: len(self.held) < SLOTS, timeout=1)
                    free = SLOTS - len(self.held)
                if free:
                    for job in self.lease(free):
                        slots.submit(self.work, job)
        self.sign_off()
        print("stopped", flush=True)

    def sign_off(self):
        """Closes the session. Without this call, other workers get the remaining jobs only when the lease expires."""
        try:
            call(f"/worker/{self.id}", {}, method="DELETE")
        except (OSError, Refused):
            pass

    def lease(self, limit):
        """Waits for jobs. `held` lets the server release jobs whose lease response was lost."""
        body = {"limit": limit, "waitSeconds": WAIT_SECONDS, "held": self.holding()}
        try:
            leased = [Job(self.id, leased) for leased in call(f"/worker/{self.id}/lease", body)["data"]]
        except Refused as refused:
            if refused.code == "worker_closed":
                # The session expired, and other workers may hold our jobs.
                self.lose(job["id"] for job in body["held"])
                self.register()
            else:
                self.stopping.wait(1)
            return []
        except OSError:
            self.stopping.wait(1)
            return []
        with self.changed:
            self.held.update(((job.id, job.epoch), job) for job in leased)
        return leased

    def work(self, job):
        try:
            job.run()
        finally:
            with self.changed:
                del self.held[job.id, job.epoch]
                self.changed.notify()

    def keep_alive(self):
        """Sends three heartbeats per lease, also during long jobs, and stops lost and cancelled jobs."""
        while True:
            time.sleep(self.lease_seconds / 3)
            try:
                told = call(f"/worker/{self.id}/heartbeat", {"held": self.holding()})
                self.lose(told["lost"] + told["cancelled"])
            except (OSError, Refused):
                pass  # the next lease call handles the error

    def lose(self, ids):
        """Tells the handlers of these jobs to stop."""
        ids = set(ids)
        with self.changed:
            for job in self.held.values():
                if job.id in ids:
                    job.gone.set()


if __name__ == "__main__":
    worker = Worker(sys.argv[1:] or ["default"])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stopping.set())
    worker.run()
