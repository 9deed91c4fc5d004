package indicator_test

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A new XID counts whether the code is the value of one series, as until dcgm-exporter 3.3.5, or
// has a series for each code; one that stood there before does not.
func TestNewXIDs(t *testing.T) {
	for name, c := range map[string]struct {
		pages string
		want  float64 // below 0: not known
	}{
		"no exporter":                           {``, -1},
		"no error":                              {`DCGM_FI_DEV_XID_ERRORS{instance="a",gpu="0"} 0x120`, 0},
		"no error, with codes":                  {`DCGM_FI_DEV_XID_ERRORS{instance="a",gpu="0",err_code="0",err_msg="No Error"} 0x120`, 0},
		"a new code":                            {`DCGM_FI_DEV_XID_ERRORS{instance="a",gpu="0"} 0x60 79x60`, 1},
		"a new code's series":                   {pages(`0x60 _x60`, `_x60 79x60`), 1},
		"and the GPU is gone since":             {pages(`0x60`, `_x60 79x10`), 1},
		"and it is 0 again":                     {pages(`0x40 _x39 0x40`, `_x40 79x39`), 0},
		"one that stood there":                  {pages(``, `79x120`), 0},
		"one that stood there and was cleared":  {pages(`_x60 0x60`, `79x60`), 0},
		"a program's fault":                     {`DCGM_FI_DEV_XID_ERRORS{instance="a",gpu="0",err_code="0"} 0x60` + "\n" + `DCGM_FI_DEV_XID_ERRORS{instance="a",gpu="0",err_code="31"} _x60 31x60`, 0},
		"beside a GPU with an old one":          {pages(`0x60 _x60`, `_x60 79x60`) + "\n" + `DCGM_FI_DEV_XID_ERRORS{instance="a",gpu="1",err_code="48",err_msg="b"} 48x120`, 1},
		"a code that another one takes over of": {pages(`48x60 _x60`, `_x60 79x60`), 1},
	} {
		t.Run(name, func(t *testing.T) {
			storage := promqltest.LoadedStorage(t, "load 5s\n"+c.pages)
			engine := promqltest.NewTestEngine(t, false, time.Minute, 1e6)
			rw := indicator.Rewriting{Window: time.Minute, Short: 15 * time.Second, Past: 10 * time.Minute}
			expr := rw.Compile(indicator.XIDChanges.Expr, indicator.GPU)
			q, err := engine.NewInstantQuery(t.Context(), storage, promql.NewPrometheusQueryOpts(false, 0, nil), expr.String(), time.Unix(600, 0))
			must.Succeed(t, err)
			defer q.Close()
			v, err := q.Exec(t.Context()).Vector()
			must.Succeed(t, err)
			got := -1.0
			if len(v) == 1 {
				got = v[0].F
			}
			if got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// pages are those of a GPU, of its code 0 (or another one with the words of none) and of 79.
func pages(none, lost string) string {
	const of = `DCGM_FI_DEV_XID_ERRORS{instance="a",gpu="0",err_code=`
	out := of + `"79",err_msg="GPU has fallen off the bus"} ` + lost
	if none != "" {
		out += "\n" + of + `"0",err_msg="No Error"} ` + none
	}
	return out
}
