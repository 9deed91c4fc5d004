//go:build e2e

// Package serve tests sixty serve, as a program, together with other programs: Prometheus, Thanos and VictoriaMetrics,
// which it reads and writes, Alertmanager, which it notifies, and simulated servers, which it watches. The tests kill
// and stop each of them. They need no GPU and no vLLM, and are built with -tags e2e only:
//
//	apt-get install prometheus prometheus-alertmanager victoria-metrics
//	go mod download github.com/thanos-io/thanos@v0.41.0
//	cp -r $(go env GOMODCACHE)/github.com/thanos-io/thanos@v0.41.0 thanos && chmod -R u+w thanos
//	(cd thanos && go build -tags netgo,slicelabels ./cmd/thanos)
//	make build
//	SIXTY_BIN=$PWD/bin/sixty SIXTY_THANOS=$PWD/thanos/thanos go test -tags e2e -timeout 30m -v ./e2e/serve
//
// SIXTY_ROUNDS=12 makes TestRounds judge a thousand servers twelve times; it needs a machine of its own.
// SIXTY_ALERTMANAGER_AWAY=1h keeps the Alertmanager of TestAlertmanager away for longer. SIXTY_BESIEGED=2h is the
// length of TestIncidents, a siege while servers fail.
//
// A test skips if a program is missing. SIXTY_PROMETHEUS, SIXTY_PROMTOOL, SIXTY_ALERTMANAGER and SIXTY_VICTORIA_METRICS
// name programs that are not on PATH.
package serve
