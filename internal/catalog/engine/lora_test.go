package engine

import "testing"

// The series of vllm:lora_requests_info are those of vLLM 0.23.0 with --max-loras 1: each
// set of adapters that ever ran or waited stays on the page, with the time it was last seen.
func TestFromLoRARequestsInfo(t *testing.T) {
	set := func(running, waiting string, at float64) Info {
		return Info{Labels: map[string]string{"max_lora": "1", "running_lora_adapters": running, "waiting_lora_adapters": waiting}, Value: at}
	}
	const now = 1795364500
	c := FromLoRARequestsInfo([]Info{set("", "", now), set("l0", "l1,l2", now-60), set("l1", "", now-30), set("old", "", now-7200)})
	if got := c[MaxLoRAs].Value; got != "1" {
		t.Errorf("slots %q, want 1", got)
	}
	if got := c[Adapters].Value; got != "3" {
		t.Errorf("adapters %q, want 3: those of the last hour", got)
	}
	if got := c[StarvingAdapters].Value; got != "l2" {
		t.Errorf("starving %q, want l2, which waited and did not run", got)
	}
	if _, known := FromLoRARequestsInfo(nil)[Adapters]; known {
		t.Error("a server without LoRA has adapters")
	}
}
