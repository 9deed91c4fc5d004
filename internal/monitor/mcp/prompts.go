package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sixty-dev/sixty/internal/catalog"
)

// A prompt is a question that people ask often, with what to do for an answer.
type prompt struct {
	name, title, text string
	arguments         []*mcp.PromptArgument
}

var prompts = []prompt{
	{"whats-wrong", "What is wrong now?", "Call diagnose. Report the verdict, its evidence and the first fix with its prediction in five " +
		"lines or fewer. If the verdict is Unknown, say what is missing. Name what could not be checked.", nil},
	{
		"explain-incident", "Explain an incident", "Call incidents if it is available, and diagnose at the time of the incident. " +
			"Call explain for the failure mode that was found, and signal for the signals of its evidence. " +
			"Report a timeline, the cause, the impact on users, and what prevents it from happening again.",
		[]*mcp.PromptArgument{{Name: "at", Description: "the time: RFC 3339, or -10m from the end of the data; the latest by default"}},
	},
	{
		"size-deployment", "Size a deployment", "Call normal for the present load and latency, then simulate with more and fewer replicas and " +
			"with the expected load. Report the smallest number of replicas that meets the objectives, with the intervals of the " +
			"simulation and its warnings.",
		[]*mcp.PromptArgument{
			{Name: "model", Description: "the model, if several are served"},
			{Name: "load", Description: "the expected load, such as 1.5 times the present"},
			{Name: "objectives", Description: "such as TTFT P95 below 1 s"},
		},
	},
}

// addPrompts adds the prompts; their arguments are appended to the text.
func addPrompts(s *mcp.Server) {
	for _, p := range prompts {
		s.AddPrompt(&mcp.Prompt{Name: p.name, Title: p.title, Description: p.title, Arguments: p.arguments},
			func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				text := p.text
				for _, a := range p.arguments {
					if v := r.Params.Arguments[a.Name]; v != "" {
						text += fmt.Sprintf(" The %s: %s.", a.Name, v)
					}
				}
				return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
			})
	}
}

// addRunbooks adds the runbook of each failure mode as a resource.
func addRunbooks(s *mcp.Server, all []*catalog.Pathology) {
	const kind = "text/markdown"
	for _, p := range all {
		r := &mcp.Resource{URI: "sixty://runbooks/" + p.ID, Name: p.ID, Title: p.Name(), Description: p.Title, MIMEType: kind, Size: int64(len(p.Runbook))}
		s.AddResource(r, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.URI, MIMEType: kind, Text: p.Runbook}}}, nil
		})
	}
}

// addIncidents adds the list of incidents as a resource.
func (t tools) addIncidents(s *mcp.Server) {
	r := &mcp.Resource{URI: "sixty://incidents", Name: "incidents", Title: "Incidents", Description: "the incidents that were stored, the latest first", MIMEType: "text/plain"}
	s.AddResource(r, func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		text, err := t.incidents(ctx, incidentsIn{Limit: mostIncidents})
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.URI, MIMEType: r.MIMEType, Text: strings.TrimSpace(text)}}}, err
	})
}
