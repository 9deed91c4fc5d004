package stream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
)

type gap struct {
	Gap int64
	N   int
}

// measured has the results that a test compares.
type measured struct {
	First, Last int64
	Tokens      int
	How         string
	Gaps        []gap
	Prompt      int
	Cached      int
	Finish      string
	Failure     string
	Failed      bool
	Complete    bool
	Bad         int
}

// A piece of an answer, with its time of arrival.
type piece struct {
	at   int64
	text string
}

type gaps []gap

func (g *gaps) Tokens(int) {}

func (g *gaps) Interval(d int64, n int) { *g = append(*g, gap{d, n}) }

func measure(kind Kind, choices int, pieces ...piece) measured {
	m := Meter{Kind: kind, Choices: choices}
	var out measured
	m.To = (*gaps)(&out.Gaps)
	at := int64(0)
	for _, p := range pieces {
		at = p.at
		m.Data([]byte(p.text), p.at)
	}
	m.End(at)
	out.First, out.Last, out.Prompt, out.Cached = m.First, m.Last, m.Usage.PromptTokens, m.Usage.CachedTokens
	out.Tokens, out.How = m.Tokens()
	out.Finish, out.Failure, out.Failed, out.Complete, out.Bad = m.Finish, m.Failure, m.Failed, m.Complete(), m.Bad
	return out
}

func token(text string) string {
	return fmt.Sprintf("data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", text)
}

const (
	role = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n"
	stop = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"stop\"}]}\n\n"
	used = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
	done = "data: [DONE]\n\n"
)

func TestMeter(t *testing.T) {
	for name, tt := range map[string]struct {
		kind    Kind
		choices int
		pieces  []piece
		want    measured
	}{
		"a stream": {
			Events, 1,
			[]piece{{10, role}, {100, token("a")}, {130, token("b")}, {150, token("c")}, {151, stop + used + done}},
			measured{First: 100, Last: 150, Tokens: 3, How: ByUsage, Gaps: []gap{{30, 1}, {20, 1}}, Prompt: 9, Cached: 4, Finish: "stop", Complete: true},
		},
		"two tokens in one read are two intervals": {
			Events, 1,
			[]piece{{100, token("a")}, {140, token("b") + token("c")}, {150, stop + done}},
			measured{First: 100, Last: 140, Tokens: 3, How: ByChunks, Gaps: []gap{{40, 2}}, Finish: "stop", Complete: true},
		},
		"the tokens of the first read have no interval": {
			Events, 1,
			[]piece{{100, token("a") + token("b")}, {140, token("c")}, {150, stop + done}},
			measured{First: 100, Last: 140, Tokens: 3, How: ByChunks, Gaps: []gap{{40, 1}}, Finish: "stop", Complete: true},
		},
		"a token split over two reads arrives with the second": {
			Events, 1,
			[]piece{{100, token("a")[:20]}, {120, token("a")[20:]}, {150, stop + done}},
			measured{First: 120, Last: 120, Tokens: 1, How: ByChunks, Finish: "stop", Complete: true},
		},
		"a chunk of several tokens, by continuous usage": {
			Events, 1,
			[]piece{
				{100, `data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}` + "\n\n"},
				{160, `data: {"choices":[{"delta":{"content":"bcd"},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":4}}` + "\n\n" + done},
			},
			measured{First: 100, Last: 160, Tokens: 4, How: ByContinuous, Gaps: []gap{{60, 3}}, Prompt: 9, Finish: "length", Complete: true},
		},
		"token ids": {
			Events, 1,
			[]piece{{100, `data: {"choices":[{"text":"ab","token_ids":[1,2],"finish_reason":"stop"}]}` + "\n\n" + done}},
			measured{First: 100, Last: 100, Tokens: 2, How: ByTokenIDs, Finish: "stop", Complete: true},
		},
		"several choices must all end": {
			Events, 2,
			[]piece{{100, token("a")}, {110, stop}},
			measured{First: 100, Last: 100, Tokens: 1, How: ByChunks, Finish: "stop"},
		},
		"several choices that end": {
			Events, 2,
			[]piece{{100, token("a")}, {110, stop + stop}},
			measured{First: 100, Last: 100, Tokens: 1, How: ByChunks, Finish: "stop", Complete: true},
		},
		"an error in the stream": {
			Events, 1,
			[]piece{{100, token("a")}, {110, `data: {"error":{"message":"secret","type":"InternalServerError","code":500}}` + "\n\n" + done}},
			measured{First: 100, Last: 100, Tokens: 1, How: ByChunks, Failed: true, Failure: "InternalServerError", Complete: true},
		},
		"a stream that is cut off": {
			Events, 1,
			[]piece{{100, token("a")}},
			measured{First: 100, Last: 100, Tokens: 1, How: ByChunks},
		},
		"garbage is passed over": {
			Events, 1,
			[]piece{{90, "data: {nonsense\n\ndata: x\n\n"}, {100, token("a") + stop + done}},
			measured{First: 100, Last: 100, Tokens: 1, How: ByChunks, Finish: "stop", Complete: true, Bad: 2},
		},
		"a tool call": {
			Events, 1,
			[]piece{
				{100, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}` + "\n\n"},
				{120, `data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n" + done},
			},
			measured{First: 100, Last: 100, Tokens: 1, How: ByChunks, Finish: "tool_calls", Complete: true},
		},
		"responses": {
			Events, 1,
			[]piece{
				{10, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\",\"usage\":null}}\n\n"},
				{100, `data: {"type":"response.output_text.delta","delta":"a"}` + "\n\n"},
				{120, `data: {"type":"response.output_text.delta","delta":"b"}` + "\n\n"},
				{130, `data: {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":9,"output_tokens":2}}}` + "\n\n"},
			},
			measured{First: 100, Last: 120, Tokens: 2, How: ByUsage, Gaps: []gap{{20, 1}}, Prompt: 9, Finish: "completed", Complete: true},
		},
		"messages": {
			Events, 1,
			[]piece{
				{10, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"r\",\"usage\":{\"input_tokens\":9,\"output_tokens\":0}}}\n\n"},
				{100, `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}` + "\n\n"},
				{130, `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"},
			},
			measured{First: 100, Last: 100, Tokens: 2, How: ByUsage, Prompt: 9, Finish: "end_turn", Complete: true},
		},
		"not streamed": {
			Whole, 1,
			[]piece{{90, `{"choices":[{"message":{"content":"ab"},"finish`}, {100, `_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`}},
			measured{First: 100, Last: 100, Tokens: 2, How: ByUsage, Prompt: 9, Finish: "stop", Complete: true},
		},
		"embeddings too long to be kept": {
			Whole, 0,
			[]piece{{90, `{"data":[{"embedding":[` + strings.Repeat("0.25,", 100_000)}, {100, `1]}],"usage":{"prompt_tokens":9,"total_tokens":9}}`}},
			measured{Prompt: 9, How: ByUsage, Complete: true},
		},
		"a refusal": {Whole, 1, []piece{{90, `{"error":{"message":"secret","type":"BadRequestError"}}`}}, measured{How: ByChunks, Failed: true, Failure: "BadRequestError", Complete: true}},
		"unknown":   {Opaque, 1, []piece{{90, "RIFF"}}, measured{How: ByChunks, Complete: true}},
		"an endless line": {
			Events, 1,
			[]piece{{90, token("a")}, {100, "data: " + strings.Repeat("x", 2<<20)}, {110, token("b")}},
			measured{First: 90, Last: 90, Tokens: 1, How: ByChunks, Complete: true, Bad: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			must.Equal(t, tt.want, measure(tt.kind, tt.choices, tt.pieces...))
		})
	}
}

func TestTheMeterKeepsNoText(t *testing.T) {
	m := Meter{Kind: Events}
	m.Data([]byte(token("secret")+"data: {\"error\":{\"message\":\"secret\"}}\n\n"), 1)
	m.End(2)
	if strings.Contains(fmt.Sprintf("%q", []string{m.Finish, m.Model, m.ID, m.Failure, fmt.Sprint(m.whole)}), "secret") {
		t.Error("a text is kept")
	}
}

// FuzzMeter checks that bytes that arrive at one moment give the same measurement in any pieces.
func FuzzMeter(f *testing.F) {
	f.Add([]byte(role+token("a")+token("b")+stop+used+done), uint8(1), true)
	f.Add([]byte(`data: {"choices":[{"text":"a","token_ids":[1]}],"usage":{"completion_tokens":1}}`+"\r\n\r\n"), uint8(3), true)
	f.Add([]byte(`{"choices":[{"message":{"content":"ab"}}],"usage":{"completion_tokens":2}}`), uint8(2), false)
	f.Fuzz(func(t *testing.T, body []byte, size uint8, events bool) {
		kind := Whole
		if events {
			kind = Events
		}
		n := int(size)%64 + 1
		if len(body) > 1<<14 {
			return
		}
		whole := measure(kind, 1, piece{7, string(body)})
		var parts []piece
		for p := body; len(p) > 0; {
			k := min(n, len(p))
			parts = append(parts, piece{7, string(p[:k])})
			p = p[k:]
		}
		if len(parts) == 0 {
			parts = []piece{{7, ""}}
		}
		if diff := cmp.Diff(whole, measure(kind, 1, parts...)); diff != "" {
			t.Fatalf("pieces of %d bytes change what is measured:\n%s", n, diff)
		}
	})
}

func BenchmarkMeter(b *testing.B) {
	data := []byte(token("word"))
	m := Meter{Kind: Events, To: new(gaps)}
	b.ReportAllocs()
	at := int64(0)
	for b.Loop() {
		at += 1000
		m.Data(data, at)
	}
}
