package workload

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRead(t *testing.T) {
	tests := map[string]struct {
		file   string
		format Format
		most   int
		want   *Trace
		err    string
	}{
		"azure dates become the time since the first request": {
			file: "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n",
			want: &Trace{Format: Azure, Requests: []Request{
				{PromptTokens: 4808, OutputTokens: 10},
				{Arrival: 52 * time.Millisecond, PromptTokens: 3180, OutputTokens: 8},
			}},
		},
		"failed requests of BurstGPT are skipped and counted": {
			file: "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,0,1087,API log\n",
			want: &Trace{
				Format: BurstGPT, Requests: []Request{{PromptTokens: 472, OutputTokens: 18, Tenant: "ChatGPT"}},
				Skipped: map[string]int{"failed request": 1},
			},
		},
		"mooncake counts milliseconds and blocks of 512": {
			file: `{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}` + "\n" +
				`{"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [0, 2]}`,
			want: &Trace{Format: Mooncake, BlockTokens: 512, Requests: []Request{
				{PromptTokens: 700, OutputTokens: 5, Blocks: []uint64{0, 1}},
				{Arrival: 3 * time.Second, PromptTokens: 600, OutputTokens: 7, Blocks: []uint64{0, 2}},
			}},
		},
		"bailian chats form sessions by their parents": {
			file: `{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.1, "input_length": 20, "output_length": 5, "type": "text", "turn": 1, "hash_ids": [7, 8]}` + "\n" +
				`{"chat_id": 2, "parent_chat_id": -1, "timestamp": 61.2, "input_length": 9, "output_length": 5, "type": "text", "turn": 1, "hash_ids": [3]}` + "\n" +
				`{"chat_id": 3, "parent_chat_id": 1, "timestamp": 62.1, "input_length": 40, "output_length": 5, "type": "text", "turn": 2, "hash_ids": [7, 8, 9]}` + "\n",
			want: &Trace{Format: Bailian, BlockTokens: 16, Requests: []Request{
				{PromptTokens: 20, OutputTokens: 5, Blocks: []uint64{7, 8}, Session: 3},
				{Arrival: 100 * time.Millisecond, PromptTokens: 9, OutputTokens: 5, Blocks: []uint64{3}, Session: 5},
				{Arrival: time.Second, PromptTokens: 40, OutputTokens: 5, Blocks: []uint64{7, 8, 9}, Session: 3, Turn: 1},
			}},
		},
		"a timed trace counts seconds and blocks of 16": {
			file:   `{"timestamp": 1.5, "input_length": 30, "output_length": 5, "hash_ids": [1, 2]}`,
			format: Timed,
			want:   &Trace{Format: Timed, BlockTokens: 16, Requests: []Request{{PromptTokens: 30, OutputTokens: 5, Blocks: []uint64{1, 2}}}},
		},
		"a last line cut off in its middle is skipped and counted": {
			file: `{"timestamp": 0, "input_length": 7, "output_length": 5}` + "\n" + `{"timestamp": 30, "input_le`,
			want: &Trace{
				Format: Mooncake, BlockTokens: 512, Requests: []Request{{PromptTokens: 7, OutputTokens: 5}},
				Skipped: map[string]int{"last line cut off": 1},
			},
		},
		"a broken line in the middle is an error that names it": {
			file: `{"timestamp": 0, "input_length": 7, "output_length": 5}` + "\n{\n" + `{"timestamp": 0, "input_length": 7}`,
			err:  "line 2",
		},
		"a conversation's prompts hold its history": {
			file: `[{"conversations": [{"from": "human", "value": "a b c"}, {"from": "gpt", "value": "d e"}, {"from": "human", "value": "f"}, {"from": "gpt", "value": "g"}]}]`,
			want: &Trace{Format: ShareGPT, Requests: []Request{
				{PromptTokens: 4, OutputTokens: 3, Session: 1},
				{PromptTokens: 9, OutputTokens: 2, Session: 1, Turn: 1},
			}},
		},
		"a CSV with milliseconds and tenants": {
			file: "arrival_ms,prompt_tokens,output_tokens,tenant\n1000,10,2,free\n500,20,4,paid\n",
			want: &Trace{Format: CSV, Requests: []Request{
				{PromptTokens: 20, OutputTokens: 4, Tenant: "paid"},
				{Arrival: 500 * time.Millisecond, PromptTokens: 10, OutputTokens: 2, Tenant: "free"},
			}},
		},
		"a file over the limit is truncated and says so": {
			file: "arrival,prompt_tokens\n1,1\n2,2\n",
			most: 1,
			want: &Trace{Format: CSV, Truncated: true, Requests: []Request{{PromptTokens: 1}}},
		},
		"an empty file":            {err: "empty"},
		"another kind of file":     {file: "<html>", err: "unknown trace format"},
		"a header without lengths": {file: "timestamp,foo,prompt_tokens_x\n", format: CSV, err: "lacks a column"},
		"a negative length":        {file: "arrival,prompt_tokens\n1,-5\n", err: "line 2"},
		"a trace without requests": {file: "arrival,prompt_tokens\n", err: "no requests"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.most == 0 {
				tt.most = maxRequests
			}
			got, err := read(strings.NewReader(tt.file), tt.format, tt.most)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("trace differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadPublishedTraces(t *testing.T) {
	dir := os.Getenv("SIXTY_SHARED")
	if dir == "" {
		dir = "../../../../shared"
	}
	tests := map[string]struct {
		requests int
		promptAt int // the first prompt's tokens
	}{
		"AzureLLMInferenceTrace_code_2023.csv": {8819, 4808},
		"AzureLLMInferenceTrace_conv_2023.csv": {19366, 374},
		"mooncake_conversation_trace.jsonl":    {12031, 6758},
	}
	for file, want := range tests {
		t.Run(file, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(dir, "data", "traces", file))
			if errors.Is(err, os.ErrNotExist) {
				t.Skip("published traces are not here; set SIXTY_SHARED")
			}
			if err != nil {
				t.Fatal(err)
			}
			tr, err := Read(bytes.NewReader(b), Auto)
			if err != nil {
				t.Fatal(err)
			}
			if len(tr.Requests) != want.requests || tr.Requests[0].PromptTokens != want.promptAt || len(tr.Skipped) > 0 {
				t.Errorf("%d requests, first prompt %d, skipped %v; want %+v", len(tr.Requests), tr.Requests[0].PromptTokens, tr.Skipped, want)
			}
			t.Logf("%+v", tr.Stats())
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"), "")
	f.Add([]byte("Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,472,18\n"), "")
	f.Add([]byte(`{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}`), "mooncake")
	f.Add([]byte(`{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.1, "input_length": 20}`), "bailian")
	f.Add([]byte(`[{"conversations": [{"from": "human", "value": "a b c"}, {"from": "gpt", "value": "d e"}]}]`), "")
	f.Fuzz(func(t *testing.T, file []byte, format string) {
		tr, err := read(bytes.NewReader(file), Format(format), 1000)
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
		tr.Stats()
		rp, err := NewReplay(tr, 1, 16)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for s := (Session{}); rp.Next(&s); {
			n += len(s.Turns)
		}
		if n != len(tr.Requests) {
			t.Fatalf("replay gives %d of %d requests", n, len(tr.Requests))
		}
	})
}
