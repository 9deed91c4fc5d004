package perfmodel_test

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"h100":                    "H100 SXM",
		"NVIDIA H100 80GB HBM3":   "H100 SXM",
		"NVIDIA H100 PCIe":        "H100 PCIe",
		"A100":                    "A100 SXM 80GB",
		"NVIDIA A100-SXM4-40GB":   "A100 40GB",
		"L40":                     "L40",
		"l40s":                    "L40S",
		"NVIDIA GeForce RTX 4090": "RTX 4090",
		"rtx pro 6000":            "RTX PRO 6000",
		"AMD Instinct MI300X":     "MI300X",
		"H20":                     "H20",
		"NVIDIA H20-3e":           "H20 141GB",
		"H20-141GB":               "H20 141GB",
		"H20 96GB":                "H20",
		"H20 120GB":               "",
		"A100 40GB":               "A100 40GB",
		"A100 80 GB":              "A100 SXM 80GB",
		"A100 48GB":               "",
		"H1":                      "",
		"":                        "",
		"nvidia":                  "",
		"H100 with a hat":         "",
	} {
		got, err := perfmodel.FindGPU(name)
		if (want == "") != (err != nil) || got.Name != want {
			t.Errorf("Find(%q) = %q, %v; want %q", name, got.Name, err, want)
		}
		if err != nil && hint.Of(err) == "" {
			t.Errorf("Find(%q): no way out: %v", name, err)
		}
	}
}

func TestAnUnknownBoardIsAnsweredWithTheNearest(t *testing.T) {
	for name, want := range map[string]string{"H101": "H100 SXM", "H20 120GB": "H20 has 96 GB, H20 141GB has 141 GB",
		"RTX 4091": "RTX 4090", "MI301X": "MI300X"} {
		if _, err := perfmodel.FindGPU(name); err == nil || !strings.Contains(err.Error()+hint.Of(err), want) {
			t.Errorf("%s: %v, try: %s", name, err, hint.Of(err))
		}
	}
}

// TestSpecsAreOfTheRightOrder keeps a misplaced zero out of the table.
func TestSpecsAreOfTheRightOrder(t *testing.T) {
	for _, s := range perfmodel.GPUs() {
		perByte := s.BF16 / s.Bandwidth
		if s.Memory < 16<<30 || s.Memory > 300<<30 || s.Bandwidth < 250e9 || s.Bandwidth > 9e12 || perByte < 30 ||
			perByte > 600 || s.FP8 != 0 && s.FP8 < s.BF16 || s.FP4 != 0 && s.FP4 < 2*s.FP8*0.99 {
			t.Errorf("%+v", s)
		}
		if s.Family == "" || (s.Link > 0) == (s.Bus > 0) || max(s.Link, s.Bus) > 1e12 || s.Host < 20e9 ||
			s.Visible > s.Memory || s.Price > 50 {
			t.Errorf("%+v", s)
		}
		if found, err := perfmodel.FindGPU(s.Name); err != nil || found.Name != s.Name {
			t.Errorf("%s is found as %q, %v", s.Name, found.Name, err)
		}
	}
}
