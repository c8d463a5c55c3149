"""A small company's jobs: what pictures of the dashboard show."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.browser.served import Served, batch
from tests.support.api import RealApi

ZONE = "Europe/Berlin"
HTTP: dict[str, Any] = {"retry": {"max_attempts": 3, "initial_backoff": "500ms", "max_backoff": "2s"}}


def _cron(expression: str) -> dict[str, Any]:
    return {"cron": expression, "time_zone": ZONE}


def fill(served: Served, api: RealApi) -> None:
    """A bookshop: stock, orders, receipts, reports; a carrier that is down, and a supplier that is late."""
    good, slow = served.echo(), served.echo("?delay=1.2")
    down, gone, shaky = (
        served.echo(query) for query in ("?status=503", "?status=404", "?fail_first=1&status=502")
    )
    for name, schedule, target, queue, tags in (
        ("sync-stock", {"every": "5s"}, good, "default", ["shop"]),
        ("send-receipts", {"every": "8s"}, good, "mail", ["mail", "orders"]),
        ("refresh-search-index", {"every": "12s"}, slow, "search", ["shop"]),
        ("poll-carrier-status", {"every": "15s"}, down, "shipping", ["orders"]),
        ("import-supplier-prices", {"every": "20s"}, shaky, "imports", ["etl"]),
        ("warm-bestseller-cache", {"every": "30s"}, good, "default", ["shop"]),
        ("remind-abandoned-carts", _cron("*/10 * * * *"), good, "mail", ["mail", "marketing"]),
        ("hourly-sales-report", _cron("0 * * * *"), good, "reports", ["reports"]),
        ("nightly-backup", _cron("30 2 * * *"), good, "maintenance", ["backup"]),
        ("nightly-stock-count", _cron("0 3 * * *"), good, "maintenance", ["etl"]),
        ("weekly-newsletter", _cron("0 9 * * MON"), good, "mail", ["mail", "marketing"]),
        ("monthly-invoices", _cron("0 6 1 * *"), good, "billing", ["billing"]),
        ("quarterly-vat-export", _cron("0 5 1 1,4,7,10 *"), good, "billing", ["billing", "reports"]),
        ("sync-legacy-catalogue", {"every": "1h"}, good, "imports", ["etl"]),
    ):
        made = api.create(name=name, schedule=schedule, target=target, queue=queue, tags=tags, **HTTP)
        if name == "sync-legacy-catalogue":
            until = (datetime.now(UTC) + timedelta(days=2)).isoformat()
            api.post(f"/v1/jobs/{made['id']}/pause", {"reason": "supplier moves its servers", "until": until})
        if name in ("nightly-backup", "hourly-sales-report"):
            begin = datetime.now(UTC) - timedelta(days=20 if name == "nightly-backup" else 2)
            body = {"from": begin.isoformat(), "to": datetime.now(UTC).isoformat(), "mode": "all"}
            api.post(f"/v1/jobs/{made['id']}/backfills", body)
    lost = [
        {"name": f"charge-order-{n}", "schedule": {"now": True}, "target": gone, "queue": "billing", "retry": {"max_attempts": 1}}
        for n in range(4801, 4838)
    ]  # fmt: skip
    batch(api, lost)
    batch(api, [{"name": f"ship-order-{n}", "schedule": {"in": f"{n % 9 + 1}h"}, "target": good, "queue": "shipping"} for n in range(4901, 4930)])  # fmt: skip
    api.call("PUT", "/v1/secrets/carrier-token", json.dumps({"value": "not-shown-anywhere"}).encode())
    ranges = [{"from": "2026-12-24T00:00:00Z", "to": "2026-12-27T00:00:00Z"}]
    api.call("PUT", "/v1/calendars/christmas", json.dumps({"ranges": ranges}).encode())
    api.post("/v1/queues/search/pause", {"reason": "reindexing by hand"})
