package load

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestReadPrompts(t *testing.T) {
	tests := map[string]struct {
		file string
		want []Prompt
		err  string
	}{
		"texts and messages": {
			file: "\"a\"\n\n{\"prompt\": \"b\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"c\"}], \"id\": 7}\n",
			want: []Prompt{
				{Text: []byte(`"a"`)}, {Text: []byte(`"b"`)},
				{Messages: []byte(`[{"role": "user", "content": "c"}]`)},
			},
		},
		"nothing":            {file: "\n", err: "no prompt is in it"},
		"plain text":         {file: "\"a\"\nhello\n", err: "line 2: not JSON"},
		"a number":           {file: "7\n", err: "line 1: want a text"},
		"no messages":        {file: `{"messages": []}`, err: "line 1: want a text"},
		"a prompt of tokens": {file: `{"prompt": [1, 2]}`, err: "line 1: want a text"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ReadPrompts(strings.NewReader(tt.file))
			if err == nil && tt.err != "" || err != nil && (tt.err == "" || !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			must.Equal(t, tt.want, got)
		})
	}
}
