package source

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/prometheus/common/config"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/metrics/api"
)

// Access says how to authenticate and encrypt, as Prometheus' scrape configuration does.
// Errors name the flags of the command line.
type Access struct {
	File            string // an HTTP configuration
	BearerTokenFile string
	BasicAuth       string   // USER:FILE
	Headers         []string // "Name: value"
	CA, Cert, Key   string   // PEM files
	Insecure        bool     // do not verify the server's certificate
}

// AddFlags adds the flags, with curl's letters.
func (f *Access) AddFlags(s *pflag.FlagSet) {
	s.StringVar(&f.File, "http-config", "",
		"YAML `file` with the HTTP settings of a Prometheus scrape configuration (authorization, oauth2, tls_config, …); for --prometheus also sigv4, azuread, google_iam")
	s.StringVar(&f.BearerTokenFile, "bearer-token-file", "", "`file` that holds a bearer token")
	s.StringVar(&f.BasicAuth, "basic-auth", "", "`USER:FILE`, the file holding the password")
	s.StringArrayVarP(&f.Headers, "header", "H", nil, "further header, as `'Name: value'`; may be repeated")
	s.StringVar(&f.CA, "tls-ca", "", "PEM `file` of the certificate authority to trust")
	s.StringVar(&f.Cert, "tls-cert", "", "PEM `file` of the client's certificate")
	s.StringVar(&f.Key, "tls-key", "", "PEM `file` of the client's key")
	s.BoolVarP(&f.Insecure, "insecure-skip-verify", "k", false, "do not verify the server's certificate")
}

var errUnsigned = hint.With(errors.New("--http-config: sigv4, azuread and google_iam sign what --prometheus asks"),
	"give the address of the managed Prometheus with --prometheus")

// checkSigning refuses settings for signing without a Prometheus server, because other requests are not signed.
func (s *Spec) checkSigning() error {
	if s.Signing.Signs() && s.Prometheus == "" {
		return errUnsigned
	}
	return nil
}

// Config returns the settings. Single flags override the file.
func (f *Access) Config() (config.HTTPClientConfig, error) {
	c, signing, err := f.Load()
	if err == nil && signing.Signs() {
		err = errUnsigned
	}
	return c, err
}

// readFile reads the file of an HTTP configuration, which may also say how requests to a managed Prometheus are signed.
func (f *Access) readFile() (*config.HTTPClientConfig, api.Signing, error) {
	var signing api.Signing
	text, err := fileio.Read(f.File, 1<<20)
	if err != nil {
		return nil, signing, err
	}
	var all map[string]yaml.Node
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, signing, err
	}
	signed := map[string]yaml.Node{}
	for _, key := range []string{"sigv4", "azuread", "google_iam"} {
		if section, ok := all[key]; ok {
			signed[key] = section
			delete(all, key)
		}
	}
	if len(signed) > 0 {
		own, err := yaml.Marshal(signed)
		if err != nil {
			return nil, signing, err
		}
		in := yaml.NewDecoder(bytes.NewReader(own))
		in.KnownFields(true)
		if err := in.Decode(&signing); err != nil {
			return nil, signing, err
		}
		if text, err = yaml.Marshal(all); err != nil {
			return nil, signing, err
		}
	}
	c, err := config.LoadHTTPConfig(string(text))
	if err == nil {
		c.SetDirectory(filepath.Dir(f.File))
	}
	return c, signing, err
}

// Load returns the settings, and how requests to a managed Prometheus are signed.
func (f *Access) Load() (c config.HTTPClientConfig, signing api.Signing, err error) {
	c = config.DefaultHTTPClientConfig
	if f.File != "" {
		var loaded *config.HTTPClientConfig
		if loaded, signing, err = f.readFile(); err != nil {
			return c, signing, hint.With(fmt.Errorf("--http-config: %w", err),
				"see http_config in Prometheus' documentation for the keys")
		}
		c = *loaded
	}
	if f.BearerTokenFile != "" {
		c.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: f.BearerTokenFile}
	}
	if f.BasicAuth != "" {
		user, file, ok := strings.Cut(f.BasicAuth, ":")
		if !ok || user == "" || file == "" {
			return c, signing, hint.With(fmt.Errorf("--basic-auth: want USER:FILE"),
				"write the password to a file that only you can read, and give its name")
		}
		c.BasicAuth = &config.BasicAuth{Username: user, PasswordFile: file}
	}
	if len(f.Headers) > 0 {
		h := config.Headers{Headers: map[string]config.Header{}}
		if c.HTTPHeaders != nil {
			for name, v := range c.HTTPHeaders.Headers {
				h.Headers[name] = v
			}
		}
		for i, text := range f.Headers {
			name, value, ok := strings.Cut(text, ":")
			if !ok || strings.TrimSpace(name) == "" {
				// The text may be a secret: it is not repeated.
				return c, signing, fmt.Errorf("--header: number %d is not 'Name: value'", i+1)
			}
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			h.Headers[name] = config.Header{Secrets: append(h.Headers[name].Secrets,
				config.Secret(strings.TrimSpace(value)))}
		}
		c.HTTPHeaders = &h
	}
	for _, set := range []struct {
		from string
		to   *string
	}{{f.CA, &c.TLSConfig.CAFile}, {f.Cert, &c.TLSConfig.CertFile}, {f.Key, &c.TLSConfig.KeyFile}} {
		if set.from != "" {
			*set.to = set.from
		}
	}
	c.TLSConfig.InsecureSkipVerify = c.TLSConfig.InsecureSkipVerify || f.Insecure
	if err := c.Validate(); err != nil {
		return c, signing, hint.With(fmt.Errorf("HTTP settings: %w", err),
			"credentials go with --bearer-token-file, --basic-auth or --http-config")
	}
	return c, signing, nil
}
