package serve

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestOwnRulesHoldAlertsOfGateways where one is among the targets, and only there: also of one
// that has counted hardly anything yet.
func TestOwnRulesHoldAlertsOfGateways(t *testing.T) {
	server, err := dialect.Named("vllm-v1")
	if err != nil {
		t.Fatal(err)
	}
	young, ok := dialect.Detect([]string{"sixty_gateway_upstream_up", "sixty_gateway_requests_open"})
	if !ok {
		t.Fatal("not a gateway's page")
	}
	for _, with := range []bool{false, true} {
		targets := []diagnose.Target{{Name: "a:8000", Dialect: server}}
		if with {
			targets = append(targets, diagnose.Target{Name: "g:8081", Dialect: young})
		}
		var r catalogueRules
		groups, _, err := r.groups(targets, pathologies.All(), diagnose.Settings{}, 15*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, alert := range []string{"LLMGatewayHangOutsideEngine", "LLMGatewayErrors", "LLMGatewayRetryStorm"} {
			has := slices.ContainsFunc(groups, func(g rulefmt.RuleGroup) bool {
				return slices.ContainsFunc(g.Rules, func(r rulefmt.Rule) bool { return r.Alert == alert })
			})
			if has != with {
				t.Errorf("with a gateway: %v; %s is there: %v", with, alert, has)
			}
		}
	}
}
