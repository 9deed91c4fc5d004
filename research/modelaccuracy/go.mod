module github.com/sixty-dev/sixty/research/modelaccuracy

go 1.26.0
