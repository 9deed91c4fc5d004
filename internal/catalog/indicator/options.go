package indicator

import "github.com/prometheus/prometheus/model/labels"

// Signals of metrics that a server exposes only with an option. Without the option they judge nothing
// (dialect.Unused), so none is Optional.

// Speculative decoding.
var (
	// SpeculationShare covers both rejected drafts and missing drafts, such as n-grams when the text repeats nothing.
	SpeculationShare = &Signal{
		Name: "speculation_share", Title: "Tokens from speculation", Unit: Ratio,
		Panel: &Panel{ID: 811, Row: 810, Width: 8, Max: 1},
		Expr: Div(
			SumRate("vllm:spec_decode_num_accepted_tokens_total"),
			Some(SumRate("vllm:generation_tokens_total"))),
		Doc:  "Drafted tokens that were accepted, of all generated tokens: what speculative decoding gives. It falls where drafts are refused, and where none are made.",
		Hint: "only with --speculative-config",
	}
	SpeculationAccepted = &Signal{
		Name: "speculation_accepted", Title: "Draft acceptance ratio", Unit: Ratio,
		Panel: &Panel{ID: 812, Row: 810, Width: 8, Max: 1},
		Expr: Div(
			SumRate("vllm:spec_decode_num_accepted_tokens_total"),
			Some(SumRate("vllm:spec_decode_num_draft_tokens_total"))),
		Doc:  "Share of the drafted tokens that the model accepts. The rest is computed and thrown away.",
		Hint: SpeculationShare.Hint,
	}
	// SpeculationLength is how many output tokens a step with a draft gives.
	SpeculationLength = &Signal{
		Name: "speculation_length", Title: "Tokens per speculative step", Unit: Tokens,
		Expr: Add(Div(
			SumRate("vllm:spec_decode_num_accepted_tokens_total"),
			AtLeast(SumRate("vllm:spec_decode_num_drafts_total"), 0.001)), Number(1)),
		Doc: "Mean acceptance length: the accepted tokens of a draft, and the one of the model itself. A step with " +
			"a draft pays where it takes less than so many times as long as one without. 1 where none is made.",
		Hint: SpeculationShare.Hint,
	}
	SpeculationDrafts = rateSignal("speculation_drafts", "Drafts", PerSecond, "vllm:spec_decode_num_drafts_total",
		"Drafts of speculative decoding, one for each request in each step that has one.")
)

// Signals of outputs with NaN.
var (
	CorruptedRequests = &Signal{
		Name: "corrupted_requests", Title: "Requests with NaN in logits", Unit: Requests,
		Panel: &Panel{ID: 813, Row: 810, Width: 8},
		Expr:  SumIncrease("vllm:corrupted_requests_total"),
		Doc:   "Requests whose logits held NaN: their text is worth nothing. Counted with VLLM_COMPUTE_NANS_IN_LOGITS=1 alone (vllm/v1/metrics/loggers.py, v0.11.1 and later).",
		Hint:  "start vLLM with VLLM_COMPUTE_NANS_IN_LOGITS=1; it costs a pass over the logits of each step",
	}
	CorruptedShare = &Signal{
		Name: "corrupted_share", Title: "Share of requests with NaN", Unit: Ratio,
		Expr: Div(SumIncrease("vllm:corrupted_requests_total"), AtLeast(SumIncrease("vllm:request_success_total"), 1)),
		Doc:  "Requests whose logits held NaN over those that finished.", Hint: CorruptedRequests.Hint,
	}
)

// hintTransfer is the hint for metrics of a KV connector.
const hintTransfer = "only with --kv-transfer-config, and a connector that counts its transfers (NixlConnector; MooncakeConnector from 0.33)"

// hintTier is the hint of KV caches beyond the GPU's memory.
const hintTier = "only with --kv-transfer-config and a connector to another tier (OffloadingConnector, LMCacheConnectorV1, MooncakeStoreConnector), or with SGLang's --enable-hierarchical-cache"

// Counters of LMCache on its server's page (lmcache/observability.py, 0.5.6).
const (
	lookedUp  = "lmcache:num_lookup_tokens_total"
	fromStore = "lmcache:num_remote_read_bytes_total"
)

// vLLM's counters of offloaded KV cache: from 0.24 on they count loads from any tier; before, transfers in both
// directions, which later releases count for host memory alone
// (vllm/distributed/kv_transfer/kv_connector/v1/offloading/metrics.py, v0.33.0).
const (
	loadTime      = "vllm:kv_offload_load_time_total"
	loadBytes     = "vllm:kv_offload_load_bytes_total"
	transferTime  = "vllm:kv_offload_total_time_total"
	transferBytes = "vllm:kv_offload_total_bytes_total"
)

// intoGPU matches transfers of offloaded KV cache back into the GPU.
var intoGPU = Like("transfer_type", ".+_to_GPU")

// paceOf returns the time for a number of bytes. unit converts both to the wanted units.
func paceOf(took Expr, unit float64, loaded Expr) Expr {
	return Div(Mul(took, Number(unit)), Some(loaded))
}

// KV caches that travel between servers, and between the tiers of one.
var (
	TransfersFailed = &Signal{
		Name: "kv_transfers_failed", Title: "Failed KV transfers", Unit: Count,
		Panel: &Panel{ID: 801, Row: 800, Width: 8},
		Expr:  SumIncrease("vllm:nixl_num_failed_transfers_total"),
		Doc:   "Transfers of a prompt's KV cache that failed. In 0.32 a failed notification counts as one too, so that a request may count twice.",
		Hint:  hintTransfer,
	}
	TransferFailShare = &Signal{
		Name: "kv_transfer_fail_share", Title: "Share of KV transfers that fail", Unit: Ratio,
		Expr: shareOf(SumIncrease("vllm:nixl_num_failed_transfers_total"), SumIncrease("vllm:nixl_xfer_time_seconds_count")),
		Doc:  "Failed transfers of KV caches over all that were tried.",
		Hint: hintTransfer,
	}
	TransferTime = &Signal{
		Name: "kv_transfer_time", Title: "KV transfer time, mean", Unit: Seconds, Count: "vllm:nixl_xfer_time_seconds", MinCount: minForMedian,
		Panel: &Panel{ID: 802, Row: 800, Width: 8},
		Expr:  NotNegative(MeanOf("vllm:nixl_xfer_time_seconds")),
		Doc:   "Mean transfer time of a prompt's KV cache: the link's part of the time to the first token.",
		Hint:  hintTransfer,
	}
	TransferP50 = &Signal{
		Name: "kv_transfer_p50", Title: "KV transfer time, P50", Unit: Seconds, Count: "vllm:nixl_xfer_time_seconds", MinCount: minForMedian,
		Expr: QuantileOf(0.5, Buckets("vllm:nixl_xfer_time_seconds")),
		Doc:  "Median transfer time of a prompt's KV cache: a pause of the server makes a few late, and a slow link all.",
		Hint: hintTransfer,
	}
	TransferBytes = &Signal{
		Name: "kv_transfer_bytes", Title: "KV bytes per transfer", Unit: Bytes, Count: "vllm:nixl_bytes_transferred", MinCount: minForMedian,
		Expr: NotNegative(MeanOf("vllm:nixl_bytes_transferred")),
		Doc:  "Mean size of a transfer: it grows with prompts.", Hint: hintTransfer,
	}
	TransfersPerRequest = &Signal{
		Name: "kv_transfers_per_request", Title: "KV transfers per request", Unit: PerRequest, Count: ttftFamily, MinCount: minForMedian,
		Expr: Div(SumRate("vllm:nixl_xfer_time_seconds_count"), Some(SumRate(ttftFamily+"_count"))),
		Doc:  "Transfers that a server received for each first token: about 1 on a decode server, 0 on a prefill server.",
		Hint: hintTransfer,
	}
	LeasesExpired = &Signal{
		Name: "kv_leases_expired", Title: "Prefills not fetched", Unit: Requests,
		Panel: &Panel{ID: 803, Row: 800, Width: 8},
		Expr:  SumIncrease("vllm:nixl_num_kv_expired_reqs_total"),
		Doc: "Requests whose KV cache a prefill server held for a decode server until the lease ended (480 s unless " +
			"VLLM_NIXL_ABORT_REQUEST_TIMEOUT says otherwise), and that none fetched. With SGLang, those that a prefill server gives up.",
		Hint: hintTransfer,
	}
	LeaseShare = &Signal{
		Name: "kv_lease_expired_share", Title: "Share of prefills not fetched", Unit: Ratio,
		Expr: Div(SumIncrease("vllm:nixl_num_kv_expired_reqs_total"), AtLeast(SumIncrease(ttftFamily+"_count"), 1)),
		Doc:  "Leases that ended unfetched over the first tokens of the same time, which are the prefills of a prefill server.",
		Hint: hintTransfer,
	}
	// FetchedPerLease tells slow decode servers and short leases from decode servers that fetch nothing.
	FetchedPerLease = &Signal{
		Name: "kv_fetched_per_lease", Title: "KV fetches per expired lease", Unit: Times, Fleet: true, Optional: true,
		Expr: OfGroup(Sum(Now("vllm:num_requests_running")), Div(
			Sum(Increase("vllm:nixl_xfer_time_seconds_count")).By(Fleet...),
			AtLeast(Sum(Increase("vllm:nixl_num_kv_expired_reqs_total")).By(Fleet...), 1)), Fleet),
		Doc:  "KV caches that all servers of the model received, over leases that ended unfetched: 0 where no decode server fetches, or none is observed.",
		Hint: hintTransfer,
	}
	// HeldIdle shows blocks that are held for another server: usage counts no free cached block.
	HeldIdle = &Signal{
		Name: "kv_held_idle", Title: "KV cache held while idle", Unit: Ratio,
		Expr: And(Mul(Max(Lowest("vllm:kv_cache_usage_perc")), Test(Sum(GaugeQuantile(0.7, "vllm:num_requests_running")), "<", Number(0.5))),
			Sum(Now("vllm:nixl_num_kv_expired_reqs_total"))),
		Doc: "KV cache usage while hardly a request runs, 0 where some do. A prefill server holds the blocks of a " +
			"request until a decode server has fetched them; held for long they are what new prompts wait for.",
		Hint: hintTransfer,
	}
	TierHitRatio = &Signal{
		Name: "kv_tier_hit_ratio", Title: "External KV cache hit ratio", Unit: Ratio,
		Panel: &Panel{ID: 805, Row: 800, Width: 8, Max: 1},
		Expr:  Div(SumRate("vllm:external_prefix_cache_hits_total"), AtLeast(SumRate("vllm:external_prefix_cache_queries_total"), 0.01)),
		Otherwise: []Alternative{{
			Without: "vllm:external_prefix_cache_queries_total", With: lookedUp,
			Expr: Div(SumRate("lmcache:num_lookup_hits_total"), AtLeast(SumRate(lookedUp), 0.01)),
		}},
		Doc: "Share of the prompt tokens that the server's own prefix cache lacks and that its KV connector finds: in host memory, " +
			"on a disk, in a store, or on the prefill server; 0 where none is asked. LMCache, where it alone tells, is asked for whole prompts.",
		Hint: hintTier,
	}
	TierQueryRate = rateSignal("kv_tier_query_rate", "External KV cache look-ups", TokensPerSecond, "vllm:external_prefix_cache_queries_total",
		"Prompt tokens that a KV connector is asked for.").withAlternative(Alternative{
		Without: "vllm:external_prefix_cache_queries_total", With: lookedUp, Expr: SumRate(lookedUp),
	})
	OffloadPace = &Signal{
		Name: "kv_offload_pace", Title: "Time to load 1 GiB from the host", Unit: Seconds,
		Panel: &Panel{ID: 806, Row: 800, Width: 8},
		Expr:  paceOf(SumRate(loadTime), 1<<30, SumRate(loadBytes)),
		Otherwise: []Alternative{
			{Without: loadBytes, With: transferBytes, Expr: paceOf(SumRate(transferTime, intoGPU), 1<<30, SumRate(transferBytes, intoGPU))},
			// LMCache times its stores in milliseconds (v1/storage_backend/connector, 0.5.6).
			{Without: loadBytes, With: fromStore, Expr: paceOf(SumRate("lmcache:remote_time_to_get_sum"), 1<<30/1e3, SumRate(fromStore))},
		},
		Doc:  "How long offloaded KV cache takes on its way back into the GPU, for each GiB (0.16 and later), or with LMCache on its way from a remote store.",
		Hint: hintTier,
	}
	OffloadBytes = &Signal{
		Name: "kv_offload_bytes", Title: "Loaded from host memory", Unit: Bytes,
		Expr: SumIncrease(loadBytes),
		Otherwise: []Alternative{
			{Without: loadBytes, With: transferBytes, Expr: SumIncrease(transferBytes, intoGPU)}, {Without: loadBytes, With: fromStore, Expr: SumIncrease(fromStore)},
		},
		Doc: "How much offloaded KV cache came back into the GPU, or with LMCache from a remote store.", Hint: hintTier,
	}
	PrefillQueue = ofPair("pd_prefill_queue", "Waiting on a prefill server", Requests,
		func(r Roles) Aggregate { return Avg(And(mostlyWaiting, r.Prefill)) },
		"Requests that wait on a prefill server of the model for seven tenths of the time, averaged over these servers.")
	PrefillBusy = ofPair("pd_prefill_running", "Running on a prefill server", Requests,
		func(r Roles) Aggregate { return Avg(And(SumMean("vllm:num_requests_running"), r.Prefill)) },
		"Requests that a prefill server of the model runs, averaged over these servers: below 1 they are sometimes idle.")
	PrefillServers = ofPair("pd_prefill_servers", "Prefill servers", Count,
		func(r Roles) Aggregate { return CountOf(And(answering, r.Prefill)) },
		"Servers of the model that only prefill: with vLLM those with a KV connector that give first tokens, and receive no KV cache.")
	DecodeQueue = ofPair("pd_decode_queue", "Waiting on a decode server", Requests,
		func(r Roles) Aggregate { return Avg(And(r.Held, r.Decode)) },
		"Mean number that waits on a decode server for seven tenths of the time; with SGLang also for room in the KV cache.")
	DecodeUsage = ofPair("pd_decode_usage", "KV cache usage, decode servers", Ratio,
		func(r Roles) Aggregate { return Avg(And(Max(Mean("vllm:kv_cache_usage_perc")), r.Decode)) },
		"KV cache usage of a decode server of the model, averaged over these servers.")
	DecodeServers = ofPair("pd_decode_servers", "Decode servers", Count,
		func(r Roles) Aggregate { return CountOf(And(answering, r.Decode)) },
		"Servers of the model that receive KV caches.")
	DecodeTTFT = &Signal{
		Name: "pd_decode_ttft", Title: "TTFT mean, decode servers", Unit: Seconds, Fleet: true, Hint: hintTransfer,
		Feature: "a KV connector of vLLM 0.16 or later",
		Expr:    OrZero(OfGroup(Unless(running, fetched), Avg(And(TTFTMean.Expr, fetched)).By(Fleet...), Fleet), running),
		Doc:     "Mean time to the first token on the model's decode servers, told to those that fetch no prompts; 0 on others.",
	}
	TransferredShare = &Signal{
		Name: "kv_transferred_share", Title: "Prompt tokens transferred, share", Unit: Ratio,
		Panel: &Panel{ID: 804, Row: 800, Width: 8, Max: 1},
		Expr: Div(
			SumRate("vllm:prompt_tokens_by_source_total", Is("source", "external_kv_transfer")),
			Some(SumRate("vllm:prompt_tokens_by_source_total"))),
		Doc: "Share of the prompt tokens whose KV cache came through a connector: near 1 on a decode server, and 0 on one that computes its prompts itself.",
	}
)

// Roles select the prefill and the decode servers of a model. Each has a value for every server that had the role in
// the available history, whether it answers now or not. Held is how many requests wait on a decode server.
type Roles struct{ Prefill, Decode, Held Expr }

// bySource tells a server's role by the source of most of its prompt tokens, whichever side counts transfers: NIXL's
// puller or its pusher. If no prompt tokens of a model are transferred, it reads which servers count transfers.
var bySource = ofReceived(Or(fetched, Unless(countsTransfers, CountOf(fetched).By(Fleet...)).On(Fleet...)))

// byTokens tells roles if the connectors count no transfers (MoRIIO, LMCache, FlexKV): a router asks a prefill server
// for one token of each request, and another server of the model fetches most of its prompts. Where replicas share a
// store, no server only prefills.
var byTokens = func() Roles {
	prefill := Unless(And(Where(Div(Sum(Increase("vllm:generation_tokens_total").In(PastMark)), givesFirst), "<", Number(1.5)),
		CountOf(fetched).By(Fleet...)).On(Fleet...), fetched)
	return Roles{
		Prefill: prefill, Decode: And(fetched, CountOf(prefill).By(Fleet...)).On(Fleet...),
		Held: Sum(GaugeQuantile(0.3, "vllm:num_requests_waiting_by_reason", Is("reason", "capacity"))), // others wait for their KV cache
	}
}()

// fetched selects the servers that received most of their prompt tokens through a connector.
var fetched = func() Expr {
	tokens := func(where ...*labels.Matcher) Expr {
		return Sum(Increase("vllm:prompt_tokens_by_source_total", where...).In(PastMark))
	}
	return Where(Div(tokens(Is("source", "external_kv_transfer")), Some(tokens())), ">", Number(0.5))
}()

// givesFirst is the number of first tokens, on the servers that gave any.
var givesFirst = Where(Sum(Increase(ttftFamily+"_count").In(PastMark)), ">", Number(0))

// byTransfers tells roles by transfers: decode servers received KV caches; prefill servers, with a connector, gave
// first tokens and received none.
var byTransfers = ofReceived(countsTransfers)

var countsTransfers = Where(Sum(Increase("vllm:nixl_xfer_time_seconds_count").In(PastMark)), ">", Number(0))

// ofReceived returns the roles by the servers that receive KV caches.
func ofReceived(received Expr) Roles {
	return Roles{Decode: received, Held: mostlyWaiting, Prefill: Unless(
		And(givesFirst, Sum(Last("vllm:nixl_xfer_time_seconds_count").In(PastMark))), received)}
}

// mostlyWaiting is how many requests wait on a server for seven tenths of the time. running is how many run now.
var mostlyWaiting, running = Sum(GaugeQuantile(0.3, "vllm:num_requests_waiting")), Sum(Now("vllm:num_requests_running"))

// Exprs returns the expressions of the signals that depend on roles, by the signals' names.
func (r Roles) Exprs() map[string]Expr {
	out := map[string]Expr{}
	for _, s := range All() {
		if s.OfRoles != nil {
			out[s.Name] = s.OfRoles(r)
		}
	}
	return out
}

// ofPair declares a value of a model's prefill or decode servers, which each server of the model gets.
func ofPair(name, title string, unit Unit, of func(Roles) Aggregate, doc string) *Signal {
	told := func(r Roles) Expr { return OfGroup(running, of(r).By(Fleet...), Fleet) }
	return &Signal{
		Name: name, Title: title, Unit: unit, Fleet: true, OfRoles: told, Doc: doc, Hint: hintTransfer,
		Expr: told(bySource), Otherwise: []Alternative{
			{Without: "vllm:prompt_tokens_by_source_total", Expr: told(byTransfers)},
			{Without: "vllm:nixl_xfer_time_seconds_count", With: "vllm:num_requests_waiting_by_reason", Expr: OrZero(told(byTokens), running)},
		},
	}
}

// shareOf returns a number of events over itself and others; 0 without any.
func shareOf(e, others Expr) Expr { return Div(e, AtLeast(Add(e, others), 1)) }

func ofOptions() []*Signal {
	return []*Signal{
		SpeculationShare, SpeculationAccepted, SpeculationLength, SpeculationDrafts, CorruptedRequests, CorruptedShare,
		TransfersFailed, TransferFailShare, TransferTime, TransferBytes, LeasesExpired, LeaseShare, HeldIdle, TransfersPerRequest, TransferredShare,
		PrefillQueue, PrefillBusy, PrefillServers, DecodeQueue, DecodeUsage, DecodeServers, DecodeTTFT,
		TransferP50, FetchedPerLease, TierHitRatio, TierQueryRate, OffloadPace, OffloadBytes,
	}
}
