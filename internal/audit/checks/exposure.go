package checks

import (
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// An Exposure is a kind of information that must not be readable in metrics, or in a machine's list of processes.
type Exposure uint8

// Exposures. Values of labels are stored for months, and copied into dashboards and alerts.
const (
	Secrets      Exposure = iota // keys and passwords in labels
	People                       // names, addresses and IDs of users in labels
	Prompts                      // prompts and answers in labels
	CommandLines                 // keys and passwords in servers' arguments
	OpenPages                    // metrics pages on other machines without authentication
)

// personal are names of labels that identify users. Gateways, proxies and servers' middleware set them.
var personal = []string{
	"user", "user_id", "userid", "username", "user_name", "user_email", "email", "end_user", "customer", "customer_id",
	"client_ip", "remote_addr", "session_id", "api_key_alias",
}

// textual are names of labels that hold prompts or answers.
var textual = []string{"prompt", "prompts", "query", "question", "messages", "input", "completion", "response", "text"}

// keyed are names of labels that hold keys.
var keyed = []string{"api_key", "apikey", "token", "access_token", "hf_token", "password", "secret", "authorization"}

// PersonalLabels lists the names of labels to ask a Prometheus server for: its series are too many to read all labels.
func PersonalLabels() []string { return slices.Concat(personal, textual, keyed) }

var (
	// secret matches the keys of OpenAI and similar services, Hugging Face, GitHub, AWS and Slack, signed tokens, and
	// passwords in URLs.
	secret = regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|` +
		`AKIA[A-Z0-9]{16}|xox[abprs]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,})|` +
		`(?i:bearer\s+[a-z0-9._-]{16,})|://[^/\s:@]+:[^/\s@]+@`)
	email = regexp.MustCompile(`^[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}$`)
	// secretFlag matches a server's flag that takes a secret, with its value.
	secretFlag = regexp.MustCompile(`(?i)(--?(?:api[-_]key|admin[-_]api[-_]key|hf[-_]token|token|password|` +
		`ssl[-_]keyfile[-_]password|secret))[= ]+[^-\s]\S*`)
)

// proseWords is the number of words from which on a label's value counts as prose.
const proseWords = 12

// Expose records an exposure and the text for its place, which must not contain the secret.
func (s *Surface) Expose(e Exposure, what string) {
	if !slices.Contains(s.Exposed[e], what) {
		s.Exposed[e] = append(s.Exposed[e], what)
	}
}

// AddLabel records an exposure if a label's name or value gives one away.
func (s *Surface) AddLabel(metric, label, value string) {
	if label == labels.MetricName || value == "" || value == "None" {
		return
	}
	name, what := strings.ToLower(label), "label "+label+" of "+metric
	switch {
	case slices.Contains(keyed, name), secret.MatchString(value):
		s.Expose(Secrets, what)
	case slices.Contains(personal, name), email.MatchString(value):
		s.Expose(People, what)
	case slices.Contains(textual, name), len(strings.Fields(value)) >= proseWords:
		s.Expose(Prompts, what)
	}
}

// AddCommandLine records the secrets in a server's command line, which every user of the machine can list.
func (s *Surface) AddCommandLine(line string) {
	for _, m := range secretFlag.FindAllStringSubmatch(line, -1) {
		s.Expose(CommandLines, m[1])
	}
	if secret.MatchString(line) && len(s.Exposed[CommandLines]) == 0 {
		s.Expose(CommandLines, "an argument")
	}
}
