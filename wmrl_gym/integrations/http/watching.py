"""What Prometheus reads of a service. Each has a registry of its own, so that two may live in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Watch:
    """Counters and histograms of one service.

    Args:
        depth: tells how many trajectories are under way.
        proxy_metrics: tells `RewardProxy.metrics`.
    """

    def __init__(self, depth: Callable[[], int], proxy_metrics: Callable[[], dict[str, float | None]]) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("wmrl_requests", "Requests answered.", ("endpoint", "code"), registry=registry)
        self.request_seconds = Histogram(
            "wmrl_request_seconds",
            "From a request's first byte to its answer.",
            ("endpoint",),
            registry=registry,
            buckets=_SECONDS,
        )
        self.predictions = Counter("wmrl_predictions", "Predicted trajectories.", ("status",), registry=registry)
        self.executions = Counter("wmrl_executions", "Executed trajectories.", ("status",), registry=registry)
        self.execution_seconds = Histogram(
            "wmrl_execution_seconds", "Of an execution, as the executor tells it.", registry=registry, buckets=_SECONDS
        )
        self.unknown = Counter("wmrl_unknown_scores", "Scores that came to nothing.", ("source",), registry=registry)
        depth_gauge = Gauge("wmrl_queue_depth", "Trajectories under way, waiting ones included.", registry=registry)
        depth_gauge.set_function(depth)
        registry.register(_ProxyCollector(proxy_metrics))

    def exposition(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self.registry)


class _ProxyCollector(Collector):
    """`RewardProxy.metrics` as ``wmrl_proxy_…``. What is unknown has no sample, for 0 would be a lie."""

    def __init__(self, proxy_metrics: Callable[[], dict[str, float | None]]) -> None:
        self._proxy_metrics = proxy_metrics

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family per metric."""
        for name, value in self._proxy_metrics().items():
            family = GaugeMetricFamily(f"wmrl_proxy_{name}", f"{name} of the reward proxy; see docs/reward_proxy.md.")
            if value is not None:
                family.add_metric((), value)
            yield family
