package git

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// ssh does not ask on the terminal, unless the user configures how it starts.
func TestSSHDoesNotAsk(t *testing.T) {
	const quiet = "GIT_SSH_COMMAND=ssh -oBatchMode=yes"
	for _, name := range []string{"GIT_SSH", "GIT_SSH_COMMAND"} {
		t.Setenv(name, "") // so that it is restored
		os.Unsetenv(name)
	}
	config := filepath.Join(t.TempDir(), "config")
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	if got := (&Repository{}).networkVariables(); !slices.Contains(got, quiet) {
		t.Errorf("variables %q", got)
	}
	if got := (&Repository{ownSSH: true}).networkVariables(); slices.Contains(got, quiet) {
		t.Errorf("core.sshCommand is overridden: %q", got)
	}
	t.Setenv("GIT_SSH_COMMAND", "ssh -i key")
	if got := (&Repository{}).networkVariables(); slices.Contains(got, quiet) ||
		!slices.Contains(got, "GIT_SSH_COMMAND=ssh -i key") {
		t.Errorf("variables %q", got)
	}
}
