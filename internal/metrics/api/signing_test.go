package api

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage/remote/azuread"
	"github.com/prometheus/prometheus/storage/remote/googleiam"
	"github.com/prometheus/sigv4"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestATokenOfGoogleCloudMayRead has a service account ask for a token on the loopback interface.
func TestATokenOfGoogleCloudMayRead(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.Succeed(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must.Succeed(t, err)
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/token":
			fmt.Fprint(w, `{"access_token": "read", "token_type": "Bearer", "expires_in": 3600}`)
		case r.Header.Get("Authorization") != "Bearer read":
			http.Error(w, "no token", http.StatusUnauthorized)
		default:
			fmt.Fprint(w, `{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "2"]}]}}`)
		}
	}))
	t.Cleanup(cloud.Close)
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "sixty@example.com", "private_key_id": "1", "token_uri": cloud.URL + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	must.Succeed(t, err)
	file := filepath.Join(t.TempDir(), "account.json")
	must.Succeed(t, os.WriteFile(file, account, 0o600))
	c, err := New(Config{URL: cloud.URL, Signing: Signing{GoogleIAM: &googleiam.Config{CredentialsFile: file}}})
	must.Succeed(t, err)
	defer c.Close()
	v, err := c.Query(t.Context(), "up", time.Unix(1, 0))
	if err != nil || len(v) != 1 || v[0].Value != 2 {
		t.Errorf("%v, %v", v, err)
	}
}

func TestWrapRefuses(t *testing.T) {
	for want, s := range map[string]Signing{
		"exclude each other": {SigV4: &sigv4.SigV4Config{}, GoogleIAM: &googleiam.Config{}},
		"google_iam: ":       {GoogleIAM: &googleiam.Config{CredentialsFile: "none.json"}},
		"Cloud is not speci": {AzureAD: &azuread.AzureADConfig{Cloud: "mine", OAuth: &azuread.OAuthConfig{}}},
	} {
		if _, err := s.Wrap(http.DefaultTransport); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v (try: %s), want %q", err, hint.Of(err), want)
		}
	}
	azure := Signing{AzureAD: &azuread.AzureADConfig{Cloud: azuread.AzurePublic, OAuth: &azuread.OAuthConfig{ClientID: "c", ClientSecret: "s", TenantID: "t"}}}
	if _, err := azure.Wrap(http.DefaultTransport); err != nil || azure.AzureAD.Scope != "" {
		t.Errorf("%v; the configuration is changed: %+v", err, azure.AzureAD)
	}
}
