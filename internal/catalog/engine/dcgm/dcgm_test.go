package dcgm

import (
	"slices"
	"strings"
	"testing"
)

func TestFieldsAreThoseOfTheHeader(t *testing.T) {
	for name, want := range map[string]Field{
		"DCGM_FI_DEV_FB_USED":                  {"gauge", "MiB"},
		"DCGM_FI_DEV_XID_ERRORS":               {"code", ""},
		"DCGM_FI_DEV_COMPUTE_PIDS":             {"text", ""},
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_L7":      {},
		"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL":        {"counter", ""},
		"DCGM_FI_PROF_PCIE_TX_BYTES":           {"gauge", "B/s"},
		"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE":      {"gauge", "ratio"},
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": {"counter", "mJ"},
	} {
		if f, ok := FieldOf(name); !ok || f != want {
			t.Errorf("%s: %+v, %v, want %+v", name, f, ok, want)
		}
	}
	for _, name := range []string{"DCGM_FI_DEV_ECC_FAILURES", "DCGM_FI_DEV_POWER_LIMIT", "DCGM_FI_DEV_FB_USED_L7", ""} {
		if _, ok := FieldOf(name); ok {
			t.Errorf("%s is taken for a field", name)
		}
	}
}

func TestTheTableOfFieldsParses(t *testing.T) {
	rows := 0
	for line := range strings.Lines(fieldsCSV) {
		row := strings.Split(strings.TrimSpace(line), ",")
		if strings.HasPrefix(line, "#") || row[0] == "name" {
			continue
		}
		rows++
		if len(row) != 3 || !slices.Contains([]string{"", "gauge", "counter", "code", "text"}, row[1]) {
			t.Errorf("row %q", line)
		}
	}
	if len(fields()) < rows {
		t.Errorf("%d fields of %d rows", len(fields()), rows)
	}
}
