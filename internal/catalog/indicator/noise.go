package indicator

// A Chance is a reason why a correct reading differs from the true state.
type Chance uint8

// The kinds of chance.
const (
	// Exact readings have no noise: a flag, an age, a level with many samples.
	Exact Chance = iota
	// Events are a count, the counted part of a share, or a rate over the window: uncertain by the square root of their
	// number.
	Events
	// Split is a replica's share of requests, as a multiple of the mean share: each request had the same chance to
	// come here (binomial). Field Of counts the requests that came here.
	Split
	// Clusters are events per request of Of that stop all running streams at once.
	Clusters
	// Backlog is a queue. A burst leaves as many requests as are served in a second, by the rate Of.
	Backlog
	// StreamTime is a time between tokens. It fluctuates as the server's own does from one moment to the next. As a
	// mean over Of observations it is also uncertain by the square root of their number.
	StreamTime
	// FirstTokenTime is a time until the first token. It fluctuates likewise.
	FirstTokenTime
	// OfRequests is a mean over the requests in Of; their standard deviation is as large as the mean.
	OfRequests
	// Served is the rate at which requests are served. While a queue drains, fewer arrive.
	Served
	// Extreme is a 99th percentile of the requests in Of. With fewer than a hundred requests it is the longest one.
	Extreme
)

// Noise describes the influence of chance on a signal's readings.
type Noise struct {
	Chance Chance
	Of     *Signal // count that the noise depends on; nil means the signal itself
	// Burst is the share of the reading that counts in a window that one burst and its aftermath can fill; 0 means 1.
	Burst float64
	// Lasting caps the reading at this multiple of its mean over the window's last moments, because a fault that is
	// over is not certain; 0 means no cap.
	Lasting float64
	// Stall marks a reading that a single stall of the machine can cause.
	Stall bool
}

// Noise returns the influence of chance on the signal's readings.
func (s *Signal) Noise() Noise { return noise[s] }

var noise = map[*Signal]Noise{
	ServerErrCount: {Chance: Events}, ServerErrs: {Chance: Events, Of: ServerErrCount},
	ClientErrCount: {Chance: Events}, ClientErrs: {Chance: Events, Of: ClientErrCount},
	EngineErrors: {Chance: Events}, AdmissionRejections: {Chance: Events},
	LeftEarly: {Chance: Events},
	Abandoned: {Chance: Events}, AbandonedShare: {Chance: Events, Of: Abandoned},

	// Twenty seconds of twice the traffic evict some requests, make others queue and one replica busier, and end.
	PreemptionsPerRequest: {Burst: 0.4},
	WaitingFloor:          {Chance: Backlog, Of: FirstTokenRate},
	PassedOver:            {Chance: Backlog, Of: FirstTokenRate},
	FirstTokenRate:        {Chance: Served},
	ArrivalShare:          {Chance: Split, Of: FirstTokens, Burst: 0.85},
	StallsPerRequest:      {Chance: Clusters, Of: FirstTokens},

	ITLMean: {Chance: StreamTime, Lasting: 1, Stall: true},
	ITLP50:  {Chance: StreamTime}, ITLP90: {Chance: StreamTime}, ITLP95: {Chance: StreamTime},
	TTFTMean: {Chance: FirstTokenTime, Lasting: 1}, TTFTP50: {Chance: FirstTokenTime, Lasting: 1},
	TTFTP90:             {Chance: FirstTokenTime, Lasting: 2.3, Stall: true}, // and the P90 is ln 10 times the mean
	TPOTMean:            {Chance: StreamTime, Of: FirstTokens},               // each answer counts as much, however short
	TTFTP95:             {Chance: FirstTokenTime, Lasting: 3},                // the P95 of an exponential distribution is three times its mean
	E2EMean:             {Chance: StreamTime, Of: FirstTokens},               // and lengths differ as much as their mean
	PrefillTimePerToken: {Chance: FirstTokenTime, Stall: true},
	ComputedTokens:      {Chance: OfRequests, Of: FirstTokens},
	PromptTail:          {Chance: Extreme, Of: FirstTokens},
}
