"""A receiver that verifies deliveries with the library: pip install standardwebhooks.

    WEBHOOK_SECRET=whsec_... python3 with_library.py [PORT]
"""

import http.server
import json
import os
import queue
import sys
import threading

from standardwebhooks import Webhook, WebhookVerificationError


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    webhook = None
    work = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            # The library compares in constant time, allows five minutes and supports rotation. Pass the raw bytes.
            payload = self.webhook.verify(body, dict(self.headers.items()))
        except WebhookVerificationError as reason:
            print(f"refused: {reason}", flush=True)
            return self.answer(401)
        # Store the message, respond, process it later.
        self.work.put((self.headers["webhook-id"], payload))
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
        if id in done:
            print(f"repeated {id}", flush=True)
            continue
        done.add(id)
        print(f"received {id} {json.dumps(payload)}", flush=True)


def main():
    Handler.webhook = Webhook(os.environ["WEBHOOK_SECRET"])
    Handler.work = queue.Queue()
    threading.Thread(target=work_on, args=[Handler.work], daemon=True).start()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 9000), Handler)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
