module github.com/sixty-dev/sixty/research/gatewaycost

go 1.26.0
