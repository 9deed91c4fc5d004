package profile_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/profile/nsys"
	"github.com/sixty-dev/sixty/internal/profile/torch"
)

func TestSmoke(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/data/profiles/*")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		var tl *profile.Timeline
		var err error
		if strings.HasSuffix(f, ".gz") {
			z, _ := gzip.NewReader(bytes.NewReader(b))
			b, _ = io.ReadAll(z)
			tl, err = torch.Read(t.Context(), bytes.NewReader(b), filepath.Base(f), 0)
		} else {
			tl, err = nsys.Read(t.Context(), bytes.NewReader(b), int64(len(b)), filepath.Base(f), 0)
		}
		if err != nil {
			t.Error(f, err)
			continue
		}
		p := profile.Combine([]*profile.Analysis{profile.Analyze(tl)})
		fmt.Printf("== %s %s events %d rank %d/%d\n", f, tl.Tool, tl.Events, tl.Rank, tl.World)
		fmt.Printf(" wall %.3f ms busy %.1f%% compute %.2f%% comm %.2f%% exposed %.2f%% copies %.2f%%\n", float64(p.Wall)/1e6, 100*p.Share(p.Busy), 100*p.Share(p.Compute), 100*p.Share(p.Comm), 100*p.Share(p.Exposed), 100*p.Share(p.Copies))
		for c := range p.Idle {
			fmt.Printf("   idle %-30s %.2f%%\n", profile.Cause(c), 100*p.Share(p.Idle[c]))
		}
		for g := range p.Group {
			if p.Group[g].Count > 0 {
				fmt.Printf("   %-18s %.2f%% sum %.2f ms n %d\n", profile.Group(g), 100*p.Share(p.Group[g].Time), float64(p.Group[g].Sum)/1e6, p.Group[g].Count)
			}
		}
		for i, k := range p.Kernels {
			if i < 12 || k.Group == profile.Other || k.Group == profile.Sampling {
				fmt.Printf("     %-14s %5d %8.2f ms %s | %s\n", k.Group, k.Count, float64(k.Sum)/1e6, k.Short[:min(len(k.Short), 90)], k.Operator)
			}
		}
		fmt.Println("  steps", p.StepsBy, p.Steps[0].Count, fmt.Sprintf("%+v", p.Steps[0]), "host", p.Host, "straggle", p.Straggle, p.Launched)
		fmt.Println("  partial", p.Partial, "notes", p.Notes)
		for i, r := range p.Roofline {
			if i < 4 {
				fmt.Printf("   %+v\n", r)
			}
		}
	}
}
