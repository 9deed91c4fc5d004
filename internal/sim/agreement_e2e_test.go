//go:build e2e

package sim

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestEveryStepEqualsTheInstalledVLLMs drives the scheduler classes of the vLLM installation in $SIXTY_VLLM, a
// directory with venv/ and model/. To refresh the committed answers, for a release that the model follows:
//
//	$SIXTY_VLLM/venv/bin/python internal/sim/testdata/drive_vllm.py $SIXTY_VLLM/model | gzip -9n > internal/sim/testdata/vllm-0.23.0.json.gz
func TestEveryStepEqualsTheInstalledVLLMs(t *testing.T) {
	dir := os.Getenv("SIXTY_VLLM")
	if dir == "" {
		t.Skip("SIXTY_VLLM is not set: no installation of vLLM to compare with")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	drive := exec.CommandContext(ctx, filepath.Join(dir, "venv/bin/python"), "testdata/drive_vllm.py",
		filepath.Join(dir, "model"))
	var stderr bytes.Buffer
	drive.Stderr = &stderr
	out, err := drive.Output()
	if err != nil {
		t.Fatalf("drive vLLM: %v\n%s", err, stderr.String())
	}
	compareScripts(t, readScripts(t, bytes.NewReader(out)))
}
