package cli

import (
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/source"
)

// httpFlags say how to authenticate and encrypt; letters are curl's.
type httpFlags struct{ source.Access }

func (f *httpFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.File, "http-config", "", "YAML `file` with the HTTP settings of a Prometheus scrape configuration (authorization, oauth2, tls_config, …)")
	s.StringVar(&f.BearerTokenFile, "bearer-token-file", "", "`file` that holds a bearer token")
	s.StringVar(&f.BasicAuth, "basic-auth", "", "`USER:FILE`, the file holding the password")
	s.StringArrayVarP(&f.Headers, "header", "H", nil, "further header, as `'Name: value'`; may be repeated")
	s.StringVar(&f.CA, "tls-ca", "", "PEM `file` of the certificate authority to trust")
	s.StringVar(&f.Cert, "tls-cert", "", "PEM `file` of the client's certificate")
	s.StringVar(&f.Key, "tls-key", "", "PEM `file` of the client's key")
	s.BoolVarP(&f.Insecure, "insecure-skip-verify", "k", false, "do not verify the server's certificate")
}
