package source

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/common/config"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
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
	s.StringVar(&f.File, "http-config", "", "YAML `file` with the HTTP settings of a Prometheus scrape configuration (authorization, oauth2, tls_config, …)")
	s.StringVar(&f.BearerTokenFile, "bearer-token-file", "", "`file` that holds a bearer token")
	s.StringVar(&f.BasicAuth, "basic-auth", "", "`USER:FILE`, the file holding the password")
	s.StringArrayVarP(&f.Headers, "header", "H", nil, "further header, as `'Name: value'`; may be repeated")
	s.StringVar(&f.CA, "tls-ca", "", "PEM `file` of the certificate authority to trust")
	s.StringVar(&f.Cert, "tls-cert", "", "PEM `file` of the client's certificate")
	s.StringVar(&f.Key, "tls-key", "", "PEM `file` of the client's key")
	s.BoolVarP(&f.Insecure, "insecure-skip-verify", "k", false, "do not verify the server's certificate")
}

// Config returns the settings. Single flags override the file.
func (f *Access) Config() (config.HTTPClientConfig, error) {
	c := config.DefaultHTTPClientConfig
	if f.File != "" {
		loaded, _, err := config.LoadHTTPConfigFile(f.File)
		if err != nil {
			return c, hint.With(fmt.Errorf("--http-config: %w", err), "see http_config in Prometheus' documentation for the keys")
		}
		c = *loaded
	}
	if f.BearerTokenFile != "" {
		c.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: f.BearerTokenFile}
	}
	if f.BasicAuth != "" {
		user, file, ok := strings.Cut(f.BasicAuth, ":")
		if !ok || user == "" || file == "" {
			return c, hint.With(fmt.Errorf("--basic-auth: want USER:FILE"), "write the password to a file that only you can read, and give its name")
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
				return c, fmt.Errorf("--header: number %d is not 'Name: value'", i+1)
			}
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			h.Headers[name] = config.Header{Secrets: append(h.Headers[name].Secrets, config.Secret(strings.TrimSpace(value)))}
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
		return c, hint.With(fmt.Errorf("HTTP settings: %w", err), "credentials go with --bearer-token-file, --basic-auth or --http-config")
	}
	return c, nil
}
