package receivers

import (
	"context"
	"html"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// Dial replaces how notifiers connect with receivers, before these are set.
func (t *Notifier) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	t.clients = []config.HTTPClientOption{config.WithDialContextFunc(dial), config.WithKeepAlivesDisabled()}
}

// Lead replaces who says that this monitor tells receivers.
func (t *Notifier) Lead(leads func() bool) { t.leads = leads }

// Mail is what a mail says below its subject.
func Mail(t *testing.T, description, link string) string {
	t.Helper()
	tmpl, err := template.FromGlobs(nil)
	if err == nil {
		err = tmpl.Parse(strings.NewReader(templates))
	}
	must.Succeed(t, err)
	text, err := tmpl.ExecuteHTMLString(`{{ template "email.default.html" . }}`, template.Data{
		Status: "firing", Alerts: template.Alerts{{Status: "firing",
			Annotations: template.KV{"description": description}, GeneratorURL: link}},
	})
	must.Succeed(t, err)
	_, text, _ = strings.Cut(text, `pre-line">`)
	text, _, _ = strings.Cut(text, "</p>")
	return html.UnescapeString(text)
}
