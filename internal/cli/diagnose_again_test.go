package cli

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/cli/command"
)

func TestAgainRepeatsTheCommandWithoutSecrets(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"incident.tar.zst", "--at", "-30s", "-v"}, "sixty diagnose incident.tar.zst --at -30s"},
		{[]string{"--prometheus", "http://p:9090", "--match", `{namespace="prod"}`}, `sixty diagnose --match '{namespace="prod"}' --prometheus http://p:9090`},
		{[]string{"it's here"}, `sixty diagnose 'it'\''s here'`},
		{[]string{"vllm:8000", "--header", "Authorization: Bearer hidden"}, ""},
		{[]string{"http://user:hidden@vllm:8000"}, ""},
	} {
		cmd := newDiagnoseCommand()
		root := newRoot(nil, nil)
		root.RemoveCommand(root.Commands()...) // but for the one that is tried
		root.AddCommand(cmd)
		must.Succeed(t, cmd.ParseFlags(tt.args))
		if got := command.Invocation(cmd, cmd.Flags().Args()); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.args, got, tt.want)
		}
	}
}
