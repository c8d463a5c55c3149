"""Every metric that a fleet shows."""

from prometheus_client import Counter, Gauge
from prometheus_client.core import Metric

from tocsin.api.metrics import Depth, Numbers, families
from tocsin.histograms import SpanHistogram
from tocsin.telemetry import Telemetry


def every_metric() -> list[Metric]:
    return [
        *Telemetry().registry.collect(),
        *families(Numbers(0, (), {}, {}, 64, 0, None, 0, 0, 0, 1, 100, 0.0)),
    ]


def labels_by_sample() -> dict[str, set[str]]:
    """The labels of each sample, beside the node's."""
    counted = Telemetry()
    found: dict[str, set[str]] = {}
    for one in vars(counted).values():
        if isinstance(one, Counter | Gauge):
            name = f"{one._name}_total" if isinstance(one, Counter) else one._name
            found[name] = {*one._labelnames, "node"}
        elif isinstance(one, SpanHistogram):
            labels = {"node", *([one._label] if one._label else [])}
            found |= {f"{one._name}{end}": labels for end in ("_count", "_sum")}
            found[f"{one._name}_bucket"] = labels | {"le"}
    some = Numbers(
        0,
        [Depth(1, "default", 1, 0)],
        {1: "default"},
        {("worker", "1"): 1},
        64,
        0,
        None,
        0,
        0,
        0,
        1,
        100,
        0.0,
    )
    for metric in families(some):
        found[metric.name] = {label for sample in metric.samples for label in sample.labels}
    return found


def every_sample() -> set[str]:
    """The names under which samples are scraped."""
    ends = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
    return {metric.name + end for metric in every_metric() for end in ends[metric.type]}
