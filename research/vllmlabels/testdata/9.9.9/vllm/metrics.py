# Every shape in which vLLM's sources make a family of metrics, with names that no release has.
from prometheus_client import Counter, Gauge, Histogram

from other import STATE_METRIC

TIER_LABEL = "tier"
EXTRA = ["backend", "pool"]


class Names:
    READS = "vllm:reads"
    SIZE = "vllm:size_bytes"


class Logger:
    def __init__(self, labelnames, config):
        self.plain = self._gauge_cls(name="vllm:plain", documentation="", labelnames=labelnames)
        more = labelnames + ["operation", "status"]
        self.more = self._counter_cls(name="vllm:more", documentation="", labelnames=more)
        self.own = self._gauge_cls(name="vllm:own_info", documentation="", labelnames=self._labelnames + EXTRA)
        for name, text in [("vllm:first", "the first"), ("vllm:second", "the second")]:
            self._counter_cls(name=name, documentation=text, labelnames=labelnames)
        self.unknown = self._gauge_cls(name="vllm:unknown_info", documentation="", labelnames=config.keys())
        self._histogram_cls(name=config.name, documentation="", labelnames=labelnames)


def prefixed(name):
    return f"vllm:{name}"


def definitions():
    metrics = {
        Names.READS: OffloadingCounterMetadata(documentation=""),
        prefixed(STATE_METRIC): OffloadingGaugeMetadata(documentation="", labelnames=("resource",)),
    }
    metrics[Names.SIZE] = OffloadingHistogramMetadata(documentation="", labelnames=(TIER_LABEL, "result"))
    return metrics


bare = Counter("vllm:bare_total", "")
timed = Histogram("vllm:timed_seconds", "", ["operation"])
