package workload

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestReadsCSVAndJSONLTraces(t *testing.T) {
	tests := map[string]struct {
		file string
		most int
		want *Trace
		err  string
	}{
		"dates become the time since the first request": {
			file: "arrival,prompt_tokens,output_tokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n",
			want: &Trace{Format: CSV, Requests: []Request{
				{PromptTokens: 4808, OutputTokens: 10},
				{Arrival: 52 * time.Millisecond, PromptTokens: 3180, OutputTokens: 8},
			}},
		},
		"lines without a prompt are skipped and counted": {
			file: "arrival,tenant,prompt_tokens,output_tokens,total\n5,ChatGPT,472,18,490\n45,GPT-4,0,7,7\n50,GPT-4\n",
			want: &Trace{
				Format: CSV, Requests: []Request{{PromptTokens: 472, OutputTokens: 18}},
				Skipped: map[string]int{"no prompt": 1, "incomplete line": 1},
			},
		},
		"JSONL counts milliseconds and blocks of 512": {
			file: `{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1], "session_id": "a"}` + "\n" +
				`{"timestamp": 1000, "input_length": 9, "output_length": 5, "session_id": 2}` + "\n\n" +
				`{"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [0, 2], "session_id": "a"}`,
			want: &Trace{Format: JSONL, BlockTokens: 512, Requests: []Request{
				{PromptTokens: 700, OutputTokens: 5, Blocks: []uint64{0, 1}, Session: 1},
				{Arrival: time.Second, PromptTokens: 9, OutputTokens: 5, Session: 2},
				{Arrival: 3 * time.Second, PromptTokens: 600, OutputTokens: 7, Blocks: []uint64{0, 2}, Session: 1, Turn: 1},
			}},
		},
		"seconds are no milliseconds": {
			file: `{"timestamp": 1.5, "input_length": 30, "output_length": 5, "hash_ids": [1, 2]}`,
			err:  "line 1: json: cannot unmarshal number 1.5",
		},
		"a last line cut off in its middle is skipped and counted": {
			file: `{"timestamp": 0, "input_length": 7, "output_length": 5}` + "\n" + `{"timestamp": 30, "input_le`,
			want: &Trace{
				Format: JSONL, BlockTokens: 512, Requests: []Request{{PromptTokens: 7, OutputTokens: 5}},
				Skipped: map[string]int{"last line cut off": 1},
			},
		},
		"a broken line in the middle is an error that names it": {
			file: `{"timestamp": 0, "input_length": 7, "output_length": 5}` + "\n{\n" + `{"timestamp": 0, "input_length": 7}`,
			err:  "line 2",
		},
		"a CSV with sessions and tenants, not in order": {
			file: "Arrival, prompt_tokens,output_tokens,session,tenant\n1,10,2,a,free\n0.5,20,4,,paid\n2,30,4,a,free\n",
			want: &Trace{Format: CSV, Requests: []Request{
				{PromptTokens: 20, OutputTokens: 4},
				{Arrival: 500 * time.Millisecond, PromptTokens: 10, OutputTokens: 2, Session: 1},
				{Arrival: 1500 * time.Millisecond, PromptTokens: 30, OutputTokens: 4, Session: 1, Turn: 1},
			}},
		},
		"a file over the limit is truncated and says so": {
			file: "arrival,prompt_tokens\n1,1\n2,2\n",
			most: 1,
			want: &Trace{Format: CSV, Truncated: true, Requests: []Request{{PromptTokens: 1}}},
		},
		"an empty file":            {err: "empty"},
		"another kind of file":     {file: "<html>", err: "unknown trace format"},
		"a header without lengths": {file: "TIMESTAMP,ContextTokens,GeneratedTokens\n", err: "no column arrival"},
		"a negative length":        {file: "arrival,prompt_tokens\n1,-5\n", err: "line 2"},
		"a trace without requests": {file: "arrival,prompt_tokens\n", err: "no requests"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.most == 0 {
				tt.most = maxRequests
			}
			got, err := readUpTo(strings.NewReader(tt.file), tt.most)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			must.Succeed(t, err)
			must.Equal(t, tt.want, got, cmpopts.EquateEmpty())
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("arrival,prompt_tokens,output_tokens\n2023-11-16 18:17:03.9799600,4808,10\n"))
	f.Add([]byte("arrival,tenant,prompt_tokens,output_tokens,session\n5,ChatGPT,472,18,x\n"))
	f.Add([]byte(`{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1], "session_id": 3}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		tr, err := readUpTo(bytes.NewReader(file), 1000)
		if err != nil {
			return
		}
		last := time.Duration(0)
		for i, r := range tr.Requests {
			if r.Arrival < last || r.PromptTokens < 1 || r.OutputTokens < 0 {
				t.Fatalf("request %d: %+v after %s", i, r, last)
			}
			last = r.Arrival
		}
		rp, err := NewReplay(tr, 1, 16)
		must.Succeed(t, err)
		n := 0
		for s := (Session{}); rp.Next(&s); {
			n += len(s.Turns)
		}
		if n != len(tr.Requests) {
			t.Fatalf("replay gives %d of %d requests", n, len(tr.Requests))
		}
	})
}
