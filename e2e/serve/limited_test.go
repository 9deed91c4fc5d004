//go:build e2e

package serve_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/polltest"
)

// limited prepends a command that limits a program to the memory of the shipped pod: with a cgroup, which systemd or
// the test makes, or else with the limit of the garbage collector, whose success the test measures.
func limited(t *testing.T, argv ...string) []string {
	scope := []string{"systemd-run", "--scope", "-q", "-p", fmt.Sprintf("MemoryMax=%d", memoryLimit), "-p",
		"MemorySwapMax=0"}
	if exec.Command(scope[0], append(scope[1:], "true")...).Run() == nil {
		return append(scope, argv...)
	}
	for _, h := range []struct{ parent, limit string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"}} {
		if group, err := cgroup(h.parent, h.limit); err == nil {
			t.Cleanup(func() { removeCgroup(t, group) })
			return append([]string{"sh", "-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, group}, argv...)
		}
	}
	t.Log("no cgroup can be made here: GOMEMLIMIT holds the program, and its resident memory is measured")
	return append([]string{"env", fmt.Sprintf("GOMEMLIMIT=%d", memoryLimit/10*9)}, argv...)
}

// cgroup makes a control group with memoryLimit bytes of memory, page cache included.
func cgroup(parent, limit string) (string, error) {
	if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); err != nil {
		return "", err
	}
	group, err := os.MkdirTemp(parent, "sixty-")
	if err != nil {
		return "", err
	}
	// If the controller is not in use, the file does not exist, and writing fails.
	f, err := os.OpenFile(filepath.Join(group, limit), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(memoryLimit))
		_ = f.Close()
	}
	if err != nil {
		_ = os.Remove(group)
		return "", err
	}
	return group, nil
}

// removeCgroup removes a group once its processes have ended.
func removeCgroup(t *testing.T, group string) {
	if polltest.True(func() bool { return syscall.Rmdir(group) == nil }) {
		return
	}
	left, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	t.Errorf("%s still has processes: %s", group, strings.Fields(string(left)))
}
