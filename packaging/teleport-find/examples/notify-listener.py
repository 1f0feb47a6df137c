#!/usr/bin/python3
"""Listens for the events of teleport-find, and runs a program for each.

    notify-listener.py SECRET_FILE [--listen HOST:PORT] PROGRAM [ARGUMENT...]

SECRET_FILE is the secret_file of the webhook. An event is taken only if its signature is
right and its time is within five minutes of ours. PROGRAM gets the event, as JSON, on its
standard input; the variables EVENT_TYPE and EVENT_TEXT have its type and its sentence. If
the program fails, the sender tries the event again. An event that was sent again after it
was taken has the id of one before, and is taken without another run.

It speaks plain HTTP: put what ends TLS before it, or have it listen on a loopback address.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import subprocess
import sys
import time

TOLERANCE = 300  # seconds
MAX_BODY = 1 << 20
MAX_DISCARDED = 16 << 20
MAX_SEEN = 10000


def keys_of(path):
    keys = []
    with open(path, encoding="ascii") as lines:
        for line in filter(None, map(str.strip, lines)):
            keys.append(base64.b64decode(line[len("whsec_"):], validate=True))
    return keys


def is_signed(keys, headers, body):
    """Whether one of the signatures is of one of the keys, and not too old."""
    message_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > TOLERANCE:
        return False
    content = b".".join([message_id.encode(), sent_at.encode(), body])
    for key in keys:
        want = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        for got in headers.get("webhook-signature", "").split():
            if hmac.compare_digest(want.encode(), got.encode("utf-8", "replace")):
                return True
    return False


class Listener(http.server.BaseHTTPRequestHandler):
    timeout = 10
    secret_file, program, seen = "", [], {}

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            if length.isdecimal():
                self.discard(min(int(length), MAX_DISCARDED))
            return self.say(413)
        body = self.rfile.read(int(length))
        if not is_signed(keys_of(self.secret_file), self.headers, body):
            return self.say(401)
        message_id = self.headers["webhook-id"]
        if message_id in self.seen:
            return self.say(204)
        event = json.loads(body)
        environment = dict(os.environ, EVENT_TYPE=event["type"], EVENT_TEXT=event["text"])
        if subprocess.run(self.program, input=body, env=environment, check=False).returncode != 0:
            return self.say(500)
        self.seen[message_id] = True
        while len(self.seen) > MAX_SEEN:
            del self.seen[next(iter(self.seen))]
        return self.say(204)

    def discard(self, length):
        """Reads a body for nothing: a close while the sender writes would lose the answer."""
        while length > 0:
            data = self.rfile.read(min(length, 1 << 16))
            if not data:
                return
            length -= len(data)

    def say(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main(arguments):
    address = "127.0.0.1:8765"
    if len(arguments) > 2 and arguments[1] == "--listen":
        address = arguments[2]
        del arguments[1:3]
    if len(arguments) < 2:
        sys.exit(__doc__)
    Listener.secret_file, Listener.program = arguments[0], arguments[1:]
    keys_of(Listener.secret_file)
    host, _, port = address.rpartition(":")
    server = http.server.HTTPServer((host, int(port)), Listener)
    print("listening on %s:%d" % server.server_address[:2], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
