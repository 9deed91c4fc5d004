package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/common/config"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/hint"
)

// httpFlags say how to authenticate and encrypt, as Prometheus' scrape
// configuration does.
type httpFlags struct {
	file, bearerTokenFile, basicAuth string
	headers                          []string
	ca, cert, key                    string
	insecure                         bool
}

func (f *httpFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.file, "http-config", "", "YAML `file` with the HTTP settings of a Prometheus scrape configuration (authorization, oauth2, tls_config, …)")
	s.StringVar(&f.bearerTokenFile, "bearer-token-file", "", "`file` that holds a bearer token")
	s.StringVar(&f.basicAuth, "basic-auth", "", "`USER:FILE`, the file holding the password")
	s.StringArrayVar(&f.headers, "header", nil, "further header, as `'Name: value'`; may be repeated")
	s.StringVar(&f.ca, "tls-ca", "", "PEM `file` of the certificate authority to trust")
	s.StringVar(&f.cert, "tls-cert", "", "PEM `file` of the client's certificate")
	s.StringVar(&f.key, "tls-key", "", "PEM `file` of the client's key")
	s.BoolVar(&f.insecure, "insecure-skip-verify", false, "do not verify the server's certificate")
}

// config returns the settings; a flag goes before the file.
func (f *httpFlags) config() (config.HTTPClientConfig, error) {
	c := config.DefaultHTTPClientConfig
	if f.file != "" {
		loaded, _, err := config.LoadHTTPConfigFile(f.file)
		if err != nil {
			return c, hint.With(fmt.Errorf("--http-config: %w", err), "see http_config in Prometheus' documentation for the keys")
		}
		c = *loaded
	}
	if f.bearerTokenFile != "" {
		c.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: f.bearerTokenFile}
	}
	if f.basicAuth != "" {
		user, file, ok := strings.Cut(f.basicAuth, ":")
		if !ok || user == "" || file == "" {
			return c, hint.With(fmt.Errorf("--basic-auth: want USER:FILE"), "write the password to a file, readable by you alone, and give its name")
		}
		c.BasicAuth = &config.BasicAuth{Username: user, PasswordFile: file}
	}
	if len(f.headers) > 0 {
		h := config.Headers{Headers: map[string]config.Header{}}
		if c.HTTPHeaders != nil {
			for name, v := range c.HTTPHeaders.Headers {
				h.Headers[name] = v
			}
		}
		for i, text := range f.headers {
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
	}{{f.ca, &c.TLSConfig.CAFile}, {f.cert, &c.TLSConfig.CertFile}, {f.key, &c.TLSConfig.KeyFile}} {
		if set.from != "" {
			*set.to = set.from
		}
	}
	c.TLSConfig.InsecureSkipVerify = c.TLSConfig.InsecureSkipVerify || f.insecure
	if err := c.Validate(); err != nil {
		return c, hint.With(fmt.Errorf("HTTP settings: %w", err), "credentials go with --bearer-token-file, --basic-auth or --http-config")
	}
	return c, nil
}
