package loadreport

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/load"
)

const csvColumns = "scheduled,sent,first_byte,first_token,last_token,end," +
	"connect,ttft,tpot,e2e,longest_stall,prompt_asked," +
	"prompt_tokens,output_asked,output_tokens,cached_tokens,turn,status,outcome"

// CSV writes a line for each request, in the order of sending. Times are seconds since the start of the test; a time
// that never came is empty.
func CSV(w io.Writer, rec *load.Recording) error {
	rows := [][]string{strings.Split(csvColumns, ",")}
	bySent := func(a, b *load.Record) int { return cmp.Compare(a.Sent, b.Sent) }
	for _, r := range slices.SortedStableFunc(rec.Records(), bySent) {
		ttft, e2e := r.TTFT(), r.E2E() // without a first token, ttft is negative
		if r.Outcome != load.Complete {
			e2e = 0
		}
		var row []string
		for i, d := range []time.Duration{
			r.Scheduled, r.Sent, r.FirstByte, r.First, r.Last, r.End,
			r.Connect, ttft, r.TPOT(), e2e, r.MaxGap,
		} {
			text := ""
			if d > 0 || i < 2 {
				text = strconv.FormatFloat(d.Seconds(), 'f', 6, 64)
			}
			row = append(row, text)
		}
		for _, n := range []int32{
			r.WantPrompt, r.PromptTokens, r.WantOutput, r.OutputTokens, r.CachedTokens,
			int32(r.Turn), int32(r.Status),
		} {
			row = append(row, strconv.Itoa(int(n)))
		}
		rows = append(rows, append(row, r.Outcome.String()))
	}
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}
