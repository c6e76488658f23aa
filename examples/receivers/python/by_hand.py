"""A receiver that verifies deliveries by hand, with only Python's standard library.

    WEBHOOK_SECRET=whsec_... python3 by_hand.py [PORT]

It supports shared secrets (whsec_, signatures v1). For public keys (whpk_, v1a) use the library.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import queue
import sys
import threading
import time

TOLERANCE_SECONDS = 5 * 60
BODY_BYTES_MAX = 2 * 1024 * 1024


class NotVerified(Exception):
    """The request is forged, too old or altered."""


def verify(secret, headers, body):
    """Returns the message id, or raises NotVerified. `body` must be the bytes as received, not serialised again."""
    id, timestamp = headers.get("webhook-id"), headers.get("webhook-timestamp")
    signatures = headers.get("webhook-signature")
    if not id or not timestamp or not signatures:
        raise NotVerified("a webhook header is missing")
    # Reject old requests, so that an attacker cannot replay a recorded request.
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        raise NotVerified("the timestamp is more than five minutes off")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{id}.{timestamp}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    # During a secret rotation there are several signatures. Ignore unknown versions.
    for signature in signatures.split(" "):
        version, _, value = signature.partition(",")
        # A comparison in constant time reveals nothing to an attacker.
        if version == "v1" and hmac.compare_digest(expected, value.encode()):
            return id
    raise NotVerified("no signature matches")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    secret = None
    work = None

    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        if length > BODY_BYTES_MAX:
            self.close_connection = True
            return self.answer(413)
        body = self.rfile.read(length)
        try:
            id = verify(self.secret, self.headers, body)
        except NotVerified as reason:
            print(f"refused: {reason}", flush=True)
            return self.answer(401)
        # Store the message, respond, process it later: the sender waits at most 15 seconds. This queue is in memory;
        # use a table with the id as its primary key, so that the insert of a duplicate fails.
        self.work.put((id, json.loads(body)))
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


def work_on(work):
    done = set()
    while True:
        id, payload = work.get()
        # A message may arrive again with the same id. Duplicates also get a 2xx response.
        if id in done:
            print(f"repeated {id}", flush=True)
            continue
        done.add(id)
        print(f"received {id} {json.dumps(payload)}", flush=True)


def main():
    Handler.secret = os.environ["WEBHOOK_SECRET"]
    Handler.work = queue.Queue()
    threading.Thread(target=work_on, args=[Handler.work], daemon=True).start()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 9000), Handler)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
