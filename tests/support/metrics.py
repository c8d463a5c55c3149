"""Every metric that a fleet shows."""

from prometheus_client.core import Metric

from tocsin.api.metrics import Numbers, families
from tocsin.telemetry import Telemetry


def every_metric() -> list[Metric]:
    return [
        *Telemetry().registry.collect(),
        *families(Numbers(0, (), {}, {}, 64, 0, None, 0, 0, 0, 1, 100, 0.0)),
    ]


def every_sample() -> set[str]:
    """The names under which samples are scraped."""
    ends = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
    return {metric.name + end for metric in every_metric() for end in ends[metric.type]}
