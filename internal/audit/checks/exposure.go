package checks

import (
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// An Exposure is what whoever reads metrics, or lists the processes of a machine, learns and should not.
type Exposure uint8

// Exposures. The values of labels are kept for months, and copied into dashboards and alerts.
const (
	Secrets      Exposure = iota // keys and passwords in labels
	People                       // names, addresses and ids of users in labels
	Prompts                      // texts in labels
	CommandLines                 // keys and passwords in arguments of servers
	OpenPages                    // metrics pages that anybody may read who reaches them
)

// personal are names of labels that hold who asked, as gateways, proxies and servers' own middleware set them.
var personal = []string{
	"user", "user_id", "userid", "username", "user_name", "user_email", "email", "end_user", "customer", "customer_id",
	"client_ip", "remote_addr", "session_id", "api_key_alias",
}

// prompting are the attributes that hold prompts or answers.
var prompting = []string{"prompt", "prompts", "query", "question", "messages", "input", "completion", "response",
	"text"}

// PersonalLabels are names of labels that are looked for where not all labels are at hand.
func PersonalLabels() []string { return slices.Concat(personal, prompting, keyed) }

// keyed are those that hold keys.
var keyed = []string{"api_key", "apikey", "token", "access_token", "hf_token", "password", "secret", "authorization"}

var (
	// secret matches the keys of OpenAI and similar services, Hugging Face, GitHub, AWS and Slack, and signed tokens.
	secret = regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}|xox[abprs]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,})|(?i:bearer\s+[a-z0-9._-]{16,})|://[^/\s:@]+:[^/\s@]+@`)
	email  = regexp.MustCompile(`^[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}$`)
	// argument is a flag of a server that takes a secret, with its value.
	argument = regexp.MustCompile(`(?i)(--?(?:api[-_]key|admin[-_]api[-_]key|hf[-_]token|token|password|ssl[-_]keyfile[-_]password|secret))[= ]+[^-\s]\S*`)
)

// proseWords is how many words make a text of a value.
const proseWords = 12

// Expose records an exposure.
func (s *Surface) Expose(e Exposure, what string) {
	if !slices.Contains(s.Exposed[e], what) {
		s.Exposed[e] = append(s.Exposed[e], what)
	}
}

// AddLabel looks at a label of the series of a name for what it exposes.
func (s *Surface) AddLabel(of, label, value string) {
	if label == labels.MetricName || value == "" || value == "None" {
		return
	}
	name, what := strings.ToLower(label), "label "+label+" of "+of
	switch {
	case slices.Contains(keyed, name), secret.MatchString(value):
		s.Expose(Secrets, what)
	case slices.Contains(personal, name), email.MatchString(value):
		s.Expose(People, what)
	case slices.Contains(prompting, name), len(strings.Fields(value)) >= proseWords:
		s.Expose(Prompts, what)
	}
}

// AddCommandLine looks at the command line of a server for secrets, which every user of its machine can list.
func (s *Surface) AddCommandLine(line string) {
	for _, m := range argument.FindAllStringSubmatch(line, -1) {
		s.Expose(CommandLines, m[1])
	}
	if secret.MatchString(line) && len(s.Exposed[CommandLines]) == 0 {
		s.Expose(CommandLines, "an argument")
	}
}
