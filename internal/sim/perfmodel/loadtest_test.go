package perfmodel_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// csvOf is a load test's file as sixty bench writes it.
func csvOf(t *testing.T, requests []sim.Request) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("scheduled,sent,first_byte,first_token,last_token,end,connect,ttft,tpot,e2e,longest_stall,prompt_asked,prompt_tokens,output_asked,output_tokens,cached_tokens,turn,tenant,status,outcome\n")
	for _, m := range measuredOf(t, requests) {
		r := m.Request
		fmt.Fprintf(&b, "%f,%f,,%f,%f,,,,,,,%d,%d,%d,%d,0,0,,200,complete\n", r.Arrival.Seconds(), r.Arrival.Seconds(),
			m.FirstToken.Seconds(), m.LastToken.Seconds(), r.PromptTokens, r.PromptTokens, r.OutputTokens,
			r.OutputTokens)
	}
	return b.String()
}

func TestALoadTestCalibrates(t *testing.T) {
	file := csvOf(t, poisson(4, 300)) + "9,9,,,,,,,,,,10,10,10,0,0,0,,503,http_503\n" +
		"9,9,,,,,,,,,,10,10,10,0,0,0,,200,complete\n"
	test, err := perfmodel.ReadLoadTest(strings.NewReader(file), 16)
	must.Succeed(t, err)
	if len(test.Requests) != 300 || test.Skips() != "1 failed, 1 without a token" {
		t.Errorf("%d requests, left out: %s", len(test.Requests), test.Skips())
	}
	c, err := perfmodel.Calibrate(perfmodel.Evidence{Config: large(t), Requests: test.Requests,
		RequestsFrom: "run.csv"})
	must.Succeed(t, err)
	if c.Fit.MedianError > 0.03 {
		t.Errorf("%s", c.Statement())
	}
}

func TestBadLoadTestResultsAreRefused(t *testing.T) {
	for _, file := range []string{"", "a,b\n", `{"input_lens": [1]}`,
		"sent,first_token,last_token,prompt_tokens,output_tokens,outcome\n1,2,3,4,5,http_5xx\n"} {
		if _, err := perfmodel.ReadLoadTest(strings.NewReader(file), 16); err == nil || hint.Of(err) == "" {
			t.Errorf("%q: error %v, want one with a way out", file, err)
		}
	}
}

func FuzzReadLoadTest(f *testing.F) {
	f.Add([]byte("sent,first_token,last_token,prompt_tokens,output_tokens,outcome\n0,0.1,0.5,10,5,complete\n1,nan,-inf,1e99,-5,unfinished\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		test, err := perfmodel.ReadLoadTest(bytes.NewReader(b), 16)
		if err != nil {
			return
		}
		rng := rand.New(rand.NewPCG(1, 1))
		m := test.Requests[rng.IntN(len(test.Requests))]
		if m.Request.PromptTokens < 1 || m.Request.OutputTokens < 1 || m.LastToken < m.FirstToken ||
			m.FirstToken <= m.Request.Arrival && m.Request.Arrival != 0 {
			t.Errorf("%+v", m)
		}
	})
}
