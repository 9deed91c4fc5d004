package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/prometheus/storage/remote/azuread"
	"github.com/prometheus/prometheus/storage/remote/googleiam"
	"github.com/prometheus/sigv4"
	"google.golang.org/api/option"
	googlehttp "google.golang.org/api/transport/http"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Signing holds the credentials for a cloud's managed Prometheus. Keys and meanings are the same as in Prometheus'
// remote_write. At most one is set.
type Signing struct {
	SigV4     *sigv4.SigV4Config     `yaml:"sigv4"`
	AzureAD   *azuread.AzureADConfig `yaml:"azuread"`
	GoogleIAM *googleiam.Config      `yaml:"google_iam"`
}

// queryScopes are the scopes of Azure's tokens by cloud: reading needs another audience than remote_write.
var queryScopes = map[string]string{
	"":                                       "https://prometheus.monitor.azure.com/.default",
	strings.ToLower(azuread.AzurePublic):     "https://prometheus.monitor.azure.com/.default",
	strings.ToLower(azuread.AzureGovernment): "https://prometheus.monitor.azure.us/.default",
	strings.ToLower(azuread.AzureChina):      "https://prometheus.monitor.azure.cn/.default",
}

// readScope lets a Google Cloud token read; the scope of remote_write may only write.
const readScope = "https://www.googleapis.com/auth/monitoring.read"

// Signs reports whether requests are signed.
func (s Signing) Signs() bool { return s != Signing{} }

// Wrap returns a transport that signs requests. It looks for credentials as the cloud's own programs do.
func (s Signing) Wrap(next http.RoundTripper) (http.RoundTripper, error) {
	set := 0
	for _, is := range []bool{s.SigV4 != nil, s.AzureAD != nil, s.GoogleIAM != nil} {
		if is {
			set++
		}
	}
	var err error
	switch {
	case set > 1:
		return nil, errors.New("sigv4, azuread and google_iam exclude each other")
	case s.SigV4 != nil:
		next, err = sigv4.NewSigV4RoundTripper(s.SigV4, next)
		err = explainSigning(err, "sigv4", "name region, and access_key and secret_key, profile or role_arn, or set "+
			"AWS_REGION and AWS_PROFILE")
	case s.AzureAD != nil:
		cfg := *s.AzureAD
		cfg.Scope = cmp.Or(cfg.Scope, queryScopes[strings.ToLower(cfg.Cloud)])
		next, err = azuread.NewAzureADRoundTripper(&cfg, next)
		err = explainSigning(err, "azuread", "see azuread of remote_write in Prometheus' documentation for the keys")
	case s.GoogleIAM != nil:
		options := []option.ClientOption{option.WithScopes(readScope)}
		if f := s.GoogleIAM.CredentialsFile; f != "" {
			options = append(options, option.WithAuthCredentialsFile(option.ServiceAccount, f))
		}
		next, err = googlehttp.NewTransport(context.Background(), next, options...)
		err = explainSigning(err, "google_iam", "name a service account's credentials_file, or run gcloud auth "+
			"application-default login")
	}
	return next, err
}

func explainSigning(err error, key, way string) error {
	if err == nil {
		return nil
	}
	return hint.With(fmt.Errorf("%s: %w", key, err), way)
}
