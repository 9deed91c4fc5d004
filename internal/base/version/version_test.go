package version

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestOf(t *testing.T) {
	const revision, date = "4f4e1d6c0ffee", "2026-11-21T03:12:00Z"
	stamped := []debug.BuildSetting{
		{Key: "vcs", Value: "git"},
		{Key: "vcs.revision", Value: revision},
		{Key: "vcs.time", Value: date},
		{Key: "vcs.modified", Value: "true"},
	}
	for name, tc := range map[string]struct {
		build   debug.BuildInfo
		release string
		want    Info
	}{
		"a release": {
			debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: stamped[:3]},
			"v1.2.3",
			Info{Version: "v1.2.3", Revision: revision, Date: date},
		},
		"go install of a release": {debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "", Info{Version: "v1.2.3"}},
		"of a changed checkout": {
			debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026+dirty"}, Settings: stamped},
			"",
			Info{Version: "v0.0.0-2026+dirty", Revision: revision, Date: date, Modified: true},
		},
		"of a test":    {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "", Info{Version: "devel"}},
		"of who knows": {debug.BuildInfo{}, "", Info{Version: "devel"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Go, tc.want.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
			must.Equal(t, tc.want, describeBuild(&tc.build, tc.release))
		})
	}
}

// TestThis: golden files hold the version of a test's build, so it must not change
// from commit to commit.
func TestThis(t *testing.T) {
	if got := This().String(); got != "sixty devel" {
		t.Errorf("a test's build says %q of itself", got)
	}
}

func TestRef(t *testing.T) {
	for v, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v0.1.0-rc.1": "v0.1.0-rc.1", "devel": "main", "v0.0.0-20261128091609-4f74a3ba4f74": "main", "v0.1.0+dirty": "main", "": "main",
	} {
		if got := (Info{Version: v}).Ref(); got != want {
			t.Errorf("%q: %s, want %s", v, got, want)
		}
	}
}
