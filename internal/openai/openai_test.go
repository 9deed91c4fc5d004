package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// collect feeds a stream to e in pieces of size n.
func collect(t testing.TB, stream string, n int) (events []string, err error) {
	t.Helper()
	var e Events
	for p := []byte(stream); len(p) > 0; {
		piece := bytes.Clone(p[:min(n, len(p))]) // what is not copied by Events must not survive
		p = p[len(piece):]
		for {
			data, rest, ok, err := e.Next(piece)
			if err != nil {
				return events, err
			}
			if !ok {
				break
			}
			events = append(events, string(data))
			piece = rest
		}
	}
	if data, ok := e.Flush(); ok {
		events = append(events, string(data))
	}
	return events, nil
}

func TestAStreamIsSplitIntoEvents(t *testing.T) {
	tests := map[string]struct {
		stream string
		want   []string
	}{
		"events end with an empty line":             {"data: a\n\ndata: b\n\n", []string{"a", "b"}},
		"lines may end with CR":                     {"data: a\r\rdata: b\rdata: c\r\r", []string{"a", "b\nc"}},
		"line ends may be of all kinds":             {"data: a\r\n\ndata: b\n\r\ndata: c\r\r\ndata: d\n\r", []string{"a", "b", "c", "d"}},
		"a byte order mark may come first":          {"\ufeffdata: a\n\n\ufeffdata: b\n\n", []string{"a"}},
		"empty lines are none":                      {"data:\n\n\n\n:\n\ndata: a\n\n", []string{"", "a"}},
		"lines may end with CR LF":                  {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		"the space after the colon is optional":     {"data:a\n\ndata:  b\n\n", []string{"a", " b"}},
		"comments and other fields are skipped":     {": ping\nevent: x\nid: 1\ndata: a\nretry: 5\n\n: ping\n\n", []string{"a"}},
		"several data lines are one event":          {"data: a\ndata: b\n\n", []string{"a\nb"}},
		"an event may be empty":                     {"data:\n\ndata\n\n", []string{"", ""}},
		"the end may cut the last empty line off":   {"data: a\n\ndata: b", []string{"a", "b"}},
		"a field that only begins like data is not": {"database: a\n\n", nil},
		"nothing": {"", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= len(tt.stream)+1; n++ {
				got, err := collect(t, tt.stream, n)
				must.Succeed(t, err)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Fatalf("in pieces of %d bytes (-want +got):\n%s", n, diff)
				}
			}
		})
	}
}

func TestEventsAreBounded(t *testing.T) {
	for name, stream := range map[string]string{
		"a line without an end":   "data: " + strings.Repeat("x", MaxEvent+1),
		"an event without an end": strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", MaxEvent/1000+2),
	} {
		if _, err := collect(t, stream, 4096); !errors.Is(err, ErrEventTooLarge) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("data: a\r\n\r\n: c\ndata:b\ndata\n\n", 3)
	f.Add("\ufeffdata: a\r\rdata: b\r\n\n\r", 1)
	f.Add("data", 1)
	f.Fuzz(func(t *testing.T, stream string, n int) {
		if n < 1 || len(stream) > 1<<16 {
			return
		}
		whole, err1 := collect(t, stream, len(stream)+1)
		parts, err2 := collect(t, stream, n)
		if diff := cmp.Diff(whole, parts); diff != "" || (err1 == nil) != (err2 == nil) {
			t.Fatalf("pieces of %d bytes change the events: %v %v\n%s", n, err1, err2, diff)
		}
	})
}

func TestChunksHaveTheirFields(t *testing.T) {
	tests := map[string]struct {
		json string
		want Chunk
	}{
		"a role chunk has no content": {`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`, Chunk{Choices: 1}},
		"text is content":             {`{"choices":[{"delta":{"content":"he\"y"}}]}`, Chunk{Choices: 1, WithContent: 1}},
		"reasoning is content":        {`{"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}`, Chunk{Choices: 1, WithContent: 1}},
		"a tool call is content":      {`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":["}}]}}]}`, Chunk{Choices: 1, WithContent: 1}},
		"a completion's text": {
			`{"id":"cmpl","choices":[{"text":" x","logprobs":{"top":[{"a":-1.5e3}]},"finish_reason":"length","stop_reason":null}],"usage":null}`,
			Chunk{Choices: 1, WithContent: 1, ID: []byte("cmpl"), Finish: []byte("length"), Ended: 1},
		},
		"token ids are counted": {`{"choices":[{"text":"","token_ids":[1,2,3]}]}`, Chunk{Choices: 1, TokenIDs: 3}},
		"usage alone has no choices": {
			`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}}`,
			Chunk{HasUsage: true, Usage: Usage{5, 7, 4}},
		},
		"an error":             {`{"error":{"message":"no","type":"Internal","code":500}}`, Chunk{HasError: true, Error: []byte("no"), ErrorType: []byte("Internal")}},
		"an error as a string": {`{"error":"no"}`, Chunk{HasError: true, Error: []byte("no")}},
		"no error":             {`{"error":null}`, Chunk{}},
		"white space":          {" { \"choices\" : [ { \"text\" : \"a\" } ,\n{ \"text\" : \"b\" } ] } \r\n", Chunk{Choices: 2, WithContent: 2}},
		"an error of its own":  {`{"object":"error","message":"no","type":"BadRequestError","code":400}`, Chunk{HasError: true, Error: []byte("no"), Type: []byte("BadRequestError")}},
		"several choices end": {
			`{"model":"m","choices":[{"text":"a","finish_reason":"stop"},{"text":"b","finish_reason":null},{"text":"","finish_reason":"length"}]}`,
			Chunk{Model: []byte("m"), Choices: 3, WithContent: 2, Ended: 2, Finish: []byte("length")},
		},
		"a delta of a response": {
			`{"type":"response.output_text.delta","delta":"hi","item_id":"x"}`,
			Chunk{Type: []byte("response.output_text.delta"), WithContent: 1},
		},
		"the end of a response": {
			`{"type":"response.completed","response":{"id":"r","type":"x","model":"m","status":"completed","error":null,"output":[{"id":"no"}],"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":4},"output_tokens":7}}}`,
			Chunk{ID: []byte("r"), Model: []byte("m"), Type: []byte("response.completed"), Finish: []byte("completed"), HasUsage: true, Usage: Usage{5, 7, 4}},
		},
		"a response that failed": {
			`{"type":"response.failed","response":{"status":"failed","error":{"message":"no"}}}`,
			Chunk{Type: []byte("response.failed"), Finish: []byte("failed"), HasError: true, Error: []byte("no")},
		},
		"the begin of a message": {
			`{"type":"message_start","message":{"id":"i","model":"m","usage":{"input_tokens":5,"cache_read_input_tokens":2,"output_tokens":0}}}`,
			Chunk{ID: []byte("i"), Model: []byte("m"), Type: []byte("message_start"), HasUsage: true, Usage: Usage{5, 0, 2}},
		},
		"a delta of a message": {
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`,
			Chunk{Type: []byte("content_block_delta"), WithContent: 1},
		},
		"embeddings": {
			`{"object":"list","data":[{"embedding":[0.1,-2]}],"model":"m","usage":{"prompt_tokens":5,"total_tokens":5}}`,
			Chunk{Model: []byte("m"), HasUsage: true, Usage: Usage{PromptTokens: 5}},
		},
		"a message": {`{"choices":[{"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`, Chunk{Choices: 1, WithContent: 1, Finish: []byte("stop"), Ended: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var c Chunk
			must.Succeed(t, c.Scan([]byte(tt.json)))
			must.Equal(t, tt.want, c)
		})
	}
	for _, bad := range []string{"", "{", `{"choices":[{"te`, "[]", "null", `{"a":1}x`, `"x"`} {
		if err := new(Chunk).Scan([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestRequestsHaveTheirFields(t *testing.T) {
	var r Request
	body := `{"model":"m","messages":[{"role":"user","content":"}\""}], "n":2,"max_tokens":7,"stream": true ,"stream_options":{"a":1,"include_usage":false}}`
	must.Succeed(t, r.Scan([]byte(body)))
	if string(r.Model) != "m" || r.Choices != 2 {
		t.Errorf("%+v", r)
	}
	for _, bad := range []string{"", "[]", `{"model":`, `{"model":"m"}x`} {
		if err := r.Scan([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// FuzzChunkScan compares the scanner with encoding/json on input that encoding/json accepts.
func FuzzChunkScan(f *testing.F) {
	f.Add([]byte(`{"choices":[{"index":0,"text":" \"a\\","finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`))
	f.Add([]byte(`{"choices":[{"delta":{"content":"x"}}],"error":null,"x":[1,{"y":"]"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Chunk
		err := c.Scan(data)
		var want struct {
			Choices []struct {
				Text json.RawMessage `json:"text"`
			} `json:"choices"`
		}
		if !json.Valid(data) || json.Unmarshal(data, &want) != nil || bytes.TrimSpace(data)[0] != '{' {
			return // the scanner may be more tolerant, but must not panic
		}
		var keys map[string]json.RawMessage
		if json.Unmarshal(data, &keys) != nil || hasDuplicates(data) {
			return
		}
		if err != nil {
			t.Fatalf("valid object refused: %v", err)
		}
		if _, exact := keys["choices"]; exact && c.Choices != len(want.Choices) {
			t.Fatalf("%d choices, want %d", c.Choices, len(want.Choices))
		}
	})
}

// hasDuplicates reports whether a key may occur twice, or in another case or
// spelling, where encoding/json and the scanner may choose differently.
func hasDuplicates(data []byte) bool {
	low := bytes.ToLower(data)
	return bytes.Count(low, []byte("choices")) > 1 || bytes.Contains(data, []byte(`\`)) || !bytes.Equal(low, data)
}

const benchEvent = `{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"scripted","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":16,"completion_tokens":5,"total_tokens":21}}`

func BenchmarkChunkScan(b *testing.B) {
	data := []byte(benchEvent)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	var c Chunk
	for b.Loop() {
		must.Succeed(b, c.Scan(data))
	}
}

func BenchmarkEvents(b *testing.B) {
	stream := []byte("data: " + benchEvent + "\n\n")
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	var e Events
	for b.Loop() {
		if _, _, ok, err := e.Next(stream); !ok || err != nil {
			b.Fatal("no event")
		}
	}
}
