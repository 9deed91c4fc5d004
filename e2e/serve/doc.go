//go:build e2e

// Package serve drives sixty serve, as a program, with the programs that it works with: a
// Prometheus, Thanos and VictoriaMetrics that it reads and writes, an Alertmanager that it
// tells, and simulated servers that it watches; and it hurts them. It needs no GPU and no
// vLLM. It is built with -tags e2e only:
//
//	apt-get install prometheus prometheus-alertmanager victoria-metrics
//	go mod download github.com/thanos-io/thanos@v0.41.0
//	cp -r $(go env GOMODCACHE)/github.com/thanos-io/thanos@v0.41.0 thanos && chmod -R u+w thanos
//	(cd thanos && go build -tags netgo,slicelabels ./cmd/thanos)
//	make build
//	SIXTY_BIN=$PWD/bin/sixty SIXTY_THANOS=$PWD/thanos/thanos go test -tags e2e -timeout 30m -v ./e2e/serve
//
// TestRounds judges a thousand servers and wants a machine of its own: SIXTY_ROUNDS=12 says how
// often. SIXTY_ALERTMANAGER_AWAY=1h keeps the Alertmanager of TestAlertmanager away for longer.
//
// TestIncidents is a siege while servers fall ill: SIXTY_BESIEGED=2h says for how long.
//
// A test skips where a program is absent. SIXTY_PROMETHEUS, SIXTY_PROMTOOL,
// SIXTY_ALERTMANAGER and SIXTY_VICTORIA_METRICS name programs that are not on PATH.
package serve
