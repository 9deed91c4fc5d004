package campaign

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestHeadersFollowTheHTTPConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	must.Succeed(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	further := &config.Headers{Headers: map[string]config.Header{"X-Team": {Values: []string{"a"}, Secrets: []config.Secret{"b"}}}}
	tests := map[string]struct {
		config config.HTTPClientConfig
		want   http.Header
	}{
		"none":             {config.HTTPClientConfig{}, http.Header{}},
		"a token's file":   {config.HTTPClientConfig{Authorization: &config.Authorization{Type: "Bearer", CredentialsFile: file}}, http.Header{"Authorization": {"Bearer s3cret"}}},
		"a password":       {config.HTTPClientConfig{BasicAuth: &config.BasicAuth{Username: "me", PasswordFile: file}}, http.Header{"Authorization": {"Basic bWU6czNjcmV0"}}},
		"further headers":  {config.HTTPClientConfig{HTTPHeaders: further}, http.Header{"X-Team": {"a", "b"}}},
		"headers and auth": {config.HTTPClientConfig{HTTPHeaders: further, Authorization: &config.Authorization{Type: "Token", Credentials: "t"}}, http.Header{"Authorization": {"Token t"}, "X-Team": {"a", "b"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := collectHeaders(&tt.config)
			must.Succeed(t, err)
			must.Equal(t, tt.want, got)
		})
	}
	if _, err := collectHeaders(&config.HTTPClientConfig{OAuth2: &config.OAuth2{}}); err == nil {
		t.Error("oauth2, whose tokens change during a test, was accepted")
	}
}
