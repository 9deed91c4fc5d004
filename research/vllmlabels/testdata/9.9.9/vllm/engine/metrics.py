# The V0 engine's logger hands the model's name alone.
class Metrics:
    def __init__(self, labelnames):
        self.old = self._gauge_cls(name="vllm:old", documentation="", labelnames=labelnames)
