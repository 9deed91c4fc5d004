package serve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/serve"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	subject := pkix.Name{CommonName: "test"}
	a.key, a.cert = a.sign(&x509.Certificate{Subject: subject, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}, nil)
	return a
}

// sign signs a certificate, with its own key where there is no parent.
func (a *authority) sign(template, parent *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(a.t, err)
	signer := a.key
	if parent == nil {
		parent, signer = template, key
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()),
		time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must.Succeed(a.t, err)
	cert, err := x509.ParseCertificate(der)
	must.Succeed(a.t, err)
	return key, cert
}

// file writes a block of PEM and returns where.
func (a *authority) file(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	must.Succeed(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// webConfig writes a web configuration with a certificate of the server, and returns its path.
func (a *authority) webConfig(more string) string {
	a.t.Helper()
	key, cert := a.sign(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{"localhost"}}, a.cert)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must.Succeed(a.t, err)
	path := filepath.Join(a.dir, "web.yaml")
	content := fmt.Sprintf("tls_server_config: {cert_file: %q, key_file: %q, client_ca_file: %q, client_auth_type: VerifyClientCertIfGiven}\n%s",
		a.file("cert.pem", "CERTIFICATE", cert.Raw), a.file("key.pem", "PRIVATE KEY", der),
		a.file("ca.pem", "CERTIFICATE", a.cert.Raw), more)
	must.Succeed(a.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// client returns one that brings a certificate, of nobody where signed is nil.
func (a *authority) client(signed *authority, name, group string) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	cfg := &tls.Config{RootCAs: pool}
	if signed != nil {
		subject := pkix.Name{CommonName: name, Organization: []string{group}}
		key, cert := signed.sign(&x509.Certificate{Subject: subject,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, signed.cert)
		own := &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
		// Sent whatever authorities the server names.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	transport := &http.Transport{TLSClientConfig: cfg}
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

const grantsByName = `
sixty:
  access:
    grants:
    - {groups: [sre], role: admin}
    - {users: [olga], role: operator}
    - {users: [vera], role: viewer}
`

// startWith starts a monitor of one server with roles and a web configuration.
func startWith(t *testing.T, webFile string) *running {
	fl, err := fleet.Start(fleet.Config{Addr: "127.0.0.1:0", Replicas: 1, Warm: time.Minute})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = fl.Close() })
	file := filepath.Join(t.TempDir(), "sixty.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(grantsByName), 0o600))
	return start(t, func(c *serve.Config) { c.File, c.Targets, c.WebFile = file, fl.URLs(), webFile })
}

// mayWhat sends a reading, a writing and a profiling request, and returns their statuses.
func mayWhat(t *testing.T, client *http.Client, url, user, password string) (got [3]int) {
	t.Helper()
	for i, route := range []string{"GET /api/v1/overview", "POST /-/reload", "GET /debug/pprof/goroutine"} {
		method, path, _ := strings.Cut(route, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
		must.Succeed(t, err)
		if user != "" {
			r.SetBasicAuth(user, password)
		}
		resp, err := client.Do(r)
		if err != nil {
			continue // the handshake failed: 0
		}
		_ = resp.Body.Close()
		got[i] = resp.StatusCode
	}
	return got
}

func TestACertificateHasTheRoleOfItsNameAndOrganization(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	r := startWith(t, ours.webConfig(""))
	for name, c := range map[string]struct {
		client *http.Client
		want   [3]int
	}{
		"no certificate":          {ours.client(nil, "", ""), [3]int{401, 401, 401}},
		"of a viewer":             {ours.client(ours, "vera", "staff"), [3]int{200, 403, 403}},
		"of an operator":          {ours.client(ours, "olga", "staff"), [3]int{200, 200, 403}},
		"of an admin, by group":   {ours.client(ours, "ada", "sre"), [3]int{200, 200, 200}},
		"of somebody unknown":     {ours.client(ours, "eve", "staff"), [3]int{403, 403, 403}},
		"of an unknown authority": {ours.client(others, "olga", "sre"), [3]int{}},
	} {
		if got := mayWhat(t, c.client, r.url, "", ""); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAPasswordHasTheRoleOfItsUser(t *testing.T) {
	a := newAuthority(t)
	var users strings.Builder
	users.WriteString("basic_auth_users:\n")
	for _, name := range []string{"vera", "olga", "eve"} {
		hash, err := bcrypt.GenerateFromPassword([]byte("of-"+name), bcrypt.MinCost)
		must.Succeed(t, err)
		fmt.Fprintf(&users, "  %s: %q\n", name, hash)
	}
	r := startWith(t, a.webConfig(users.String()))
	for name, c := range map[string]struct {
		user, password string
		want           [3]int
	}{
		"nobody":              {"", "", [3]int{401, 401, 401}},
		"a viewer":            {"vera", "of-vera", [3]int{200, 403, 403}},
		"an operator":         {"olga", "of-olga", [3]int{200, 200, 403}},
		"a wrong password":    {"olga", "of-vera", [3]int{401, 401, 401}},
		"a user of no grant":  {"eve", "of-eve", [3]int{403, 403, 403}},
		"a name without user": {"ada", "", [3]int{401, 401, 401}},
	} {
		if got := mayWhat(t, a.client(nil, "", ""), r.url, c.user, c.password); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
