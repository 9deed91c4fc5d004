package loadreport

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/sixty-dev/sixty/internal/load"
)

// CSV writes a line for every request, in the order they were sent. Times are
// seconds since the test's start; a time that did not come is empty.
func CSV(w io.Writer, rec *load.Recording) error {
	bw := bufio.NewWriter(w)
	_, _ = bw.WriteString("scheduled,ready,sent,first_byte,first_token,last_token,end,connect,ttft,tpot,e2e,longest_stall,prompt_asked,prompt_tokens,output_asked,output_tokens,cached_tokens,turn,status,outcome\n")
	var b []byte
	for _, r := range inOrder(rec) {
		b = b[:0]
		for _, d := range []time.Duration{r.Scheduled, r.Ready, r.Sent} {
			b = append(strconv.AppendFloat(b, d.Seconds(), 'f', 6, 64), ',')
		}
		for _, d := range []time.Duration{r.FirstByte, r.First, r.Last, r.End, r.Connect, ttft(r), r.TPOT(), e2e(r), r.MaxGap} {
			if d > 0 {
				b = strconv.AppendFloat(b, d.Seconds(), 'f', 6, 64)
			}
			b = append(b, ',')
		}
		for _, n := range []int32{r.WantPrompt, r.PromptTokens, r.WantOutput, r.OutputTokens, r.CachedTokens, int32(r.Turn)} {
			b = append(strconv.AppendInt(b, int64(n), 10), ',')
		}
		b = append(strconv.AppendInt(b, int64(r.Status), 10), ',')
		b = append(append(b, r.Outcome.String()...), '\n')
		_, _ = bw.Write(b) // Flush returns the first error
	}
	if err := bw.Flush(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func ttft(r *load.Record) time.Duration {
	if r.First == 0 {
		return 0
	}
	return r.TTFT()
}

func e2e(r *load.Record) time.Duration {
	if r.Outcome != load.Complete {
		return 0
	}
	return r.E2E()
}

func inOrder(rec *load.Recording) []*load.Record {
	records := make([]*load.Record, 0, rec.Len())
	for r := range rec.Records() {
		records = append(records, r)
	}
	slices.SortStableFunc(records, func(a, b *load.Record) int { return cmp.Compare(a.Sent, b.Sent) })
	return records
}
