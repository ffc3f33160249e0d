"""A server in the hub's place that gives one answer to everything, with status 200."""

import contextlib
import http.server
import threading
from unittest import mock

from huggingface_hub import constants

from embscale.checkpoints import hub

COMMIT = "a" * 40


@contextlib.contextmanager
def standing(body=b""):
    """The server, in whose ``body`` the answer can be changed, and its address; nothing is asked twice."""

    class Portal(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer = server.body
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

        do_HEAD = do_POST = do_GET

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    server.body, address = body, f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    with (
        mock.patch.object(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template),
        mock.patch.object(constants, "ENDPOINT", address),
        mock.patch.object(hub, "TRIES", 1),
    ):
        yield server, address
    server.shutdown()
    server.server_close()
