"""A receiver that checks who calls it: only what Tocsin signed is answered with 200.

    pip install standardwebhooks
    tocsin webhook-secret show
    WEBHOOK_SECRET=whsec_… python3 examples/verify_signature.py
    tocsin jobs create --in 1s --target-url http://127.0.0.1:8300/hook --body '{"report": "daily"}'

While a secret is being replaced, give the new one here: requests are signed with both.
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

PORT = int(os.environ.get("PORT", "8300"))


class Receiver(BaseHTTPRequestHandler):
    """Verifies, then does the work once per id."""

    done: set[str] = set()  # noqa: RUF012 - yours is a table, written in the transaction that does the work

    def do_POST(self) -> None:
        """Take a call."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            # The bytes as they came: parsing and printing them again would change what was signed.
            Webhook(os.environ["WEBHOOK_SECRET"]).verify(body, dict(self.headers), json_parse=False)
        except WebhookVerificationError as error:
            print(f"refused: {error}")
            self._answer(401)
            return
        execution = self.headers["webhook-id"]
        if execution not in self.done:
            self.done.add(execution)
            print(f"verified {execution}: {body.decode()}", flush=True)
        self._answer(200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


if __name__ == "__main__":
    if not os.environ.get("WEBHOOK_SECRET"):
        sys.exit("WEBHOOK_SECRET is not set; `tocsin webhook-secret show` has it")
    print(f"listening on http://127.0.0.1:{PORT}", flush=True)
    HTTPServer(("127.0.0.1", PORT), Receiver).serve_forever()
