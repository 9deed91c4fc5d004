package amd_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// page is one of two GPUs, with the labels of the exporter's documentation. The second one is slow when it
// is hot.
func page(prefix string, hot bool) []byte {
	var b strings.Builder
	add := func(gpu int, name, more string, v float64) {
		fmt.Fprintf(&b, "%s%s{card_model=\"xxxx\",gpu_compute_partition_type=\"spx\",gpu_id=\"%d\",gpu_partition_id=\"0\",hostname=\"host\",serial_number=\"xxxx\"%s} %g\n", prefix, name, gpu, more, v)
	}
	for gpu := range 2 {
		mhz, limited, celsius := 2100.0, 0.0, 60.0
		if gpu == 1 && hot {
			mhz, limited, celsius = 900, 35, 99
		}
		add(gpu, "gpu_gfx_activity", "", 80)
		add(gpu, "gpu_used_vram", "", 147456)
		add(gpu, "gpu_total_vram", "", 196608)
		add(gpu, "gpu_package_power", "", 600+100*float64(gpu))
		add(gpu, "gpu_junction_temperature", "", celsius)
		add(gpu, "gpu_clock", `,clock_index="0",clock_type="GPU_CLOCK_TYPE_SYSTEM"`, 130) // a die that rests
		add(gpu, "gpu_clock", `,clock_index="1",clock_type="GPU_CLOCK_TYPE_SYSTEM"`, mhz)
		add(gpu, "gpu_clock", `,clock_index="8",clock_type="GPU_CLOCK_TYPE_MEMORY"`, 1300)
		for _, limit := range []string{"processor_hot", "ppt", "vr_thermal", "hbm_thermal"} {
			add(gpu, "gpu_violation_"+limit+"_residency_percentage", "", 0)
		}
		add(gpu, "gpu_violation_socket_thermal_residency_percentage", "", limited)
		add(gpu, "gpu_ecc_uncorrect_total", "", 0)
		add(gpu, "pcie_replay_count", "", 5)
	}
	return []byte(b.String())
}

// TestAServerIsLentItsGPUs diagnoses a server beside AMD's exporter, with and without a prefix, while one
// GPU is held down by its temperature.
func TestAServerIsLentItsGPUs(t *testing.T) {
	for _, prefix := range []string{"", "amd_"} {
		store := embeddedtest.New(t)
		all, err := fleet.Scenarios(pathologies.All())
		must.Succeed(t, err)
		began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var end time.Time
		put := func(p fleet.Scrape) error {
			if p.Target == fleet.ExporterTarget {
				p.Target, p.Body = "fleet:5000", page(prefix, p.At.Sub(began) > 50*time.Second)
			}
			end = p.At
			_, err := store.Append(embedded.Target{Instance: p.Target}, p.At, p.Body, fleet.ContentType, time.Millisecond)
			return err
		}
		must.Succeed(t, fleet.Play(t.Context(), all[0], fleet.DefaultRelease, 1, began, put, nil))
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: end, First: began, Interval: time.Second, Pathologies: pathologies.All()})
		must.Succeed(t, err)
		if d.Verdict.ID != "gpu-throttling" {
			t.Errorf("%q: the verdict is %s", prefix, d.Verdict.ID)
		}
		for i := range d.Targets {
			if !d.Targets[i].Serves() {
				continue
			}
			for s, want := range map[*indicator.Signal]float64{
				indicator.GPUUtil: 0.8, indicator.GPUMemoryUsed: 0.75, indicator.GPUPower: 700, indicator.GPUTemp: 99, indicator.SMClock: 900,
				indicator.SMClockRatio: 900. / 2100, indicator.ThermalReason: 1, indicator.PowerReason: 0, indicator.PowerCapReason: 0,
				indicator.ECCErrors: 0, indicator.PCIeReplays: 0,
			} {
				if v, _ := d.Reading(i, s); !v.OK || math.Abs(v.V-want) > 1e-9 {
					t.Errorf("%q: %s is %+v, want %g", prefix, s.Name, v, want)
				}
			}
			if v, _ := d.Reading(i, indicator.XID); v.OK {
				t.Errorf("%q: XID %+v of a GPU that has none", prefix, v)
			}
		}
	}
}

func TestOthersArePassedBy(t *testing.T) {
	for _, names := range [][]string{nil, {"gpu_memory_used_bytes", "gpu_clock_mhz"}, {"amd_smi_gpu_use"}} {
		if d, ok := dialect.Detect(names); ok {
			t.Errorf("%q are taken for %s", names, d.ID)
		}
	}
}
