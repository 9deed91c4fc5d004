// Command sixty tells the person on call what is wrong with an LLM inference server, and what to change, within sixty
// seconds.
package main

import (
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // root certificates for containers without any

	"github.com/sixty-dev/sixty/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
