package config

import (
	"strings"
	"testing"
)

// An address of a repository is recorded in the ledger, so it must not have a secret.
func TestRemoteHasNoSecret(t *testing.T) {
	for remote, valid := range map[string]bool{
		"https://github.com/ann/shop.git": true, "ssh://git@github.com/ann/shop.git": true,
		"git@github.com:ann/shop.git": true, "origin": true, "https://example.org/a@b": true,
		"https://ghp_abc@github.com/ann/shop.git": false,
		"HTTPS://ghp_abc@github.com/ann/shop.git": false,
		"http://ann@example.org/shop.git":         false,
		"https://ann:secret@github.com/shop.git":  false,
		"https://ann:sec%zz@github.com/shop.git":  false, "https://@example.org/x": false,
		"ssh://git:secret@github.com/shop.git": false,
	} {
		_, err := Parse([]byte("agent: claude\ndeliver: {as: push, remote: '" + remote + "'}\n"))
		if (err == nil) != valid {
			t.Errorf("%s: %v", remote, err)
		}
		if err != nil && (strings.Contains(err.Error(), "ghp_abc") ||
			strings.Contains(err.Error(), "secret@")) {
			t.Errorf("the error has the secret: %v", err)
		}
	}
}

func TestSquashedWorkIsNotStacked(t *testing.T) {
	for settings, valid := range map[string]bool{
		"squash: true":                    true,
		"dependents: stack":               true,
		"squash: true, dependents: wait":  true,
		"squash: true, dependents: stack": false,
	} {
		_, err := Parse([]byte("agent: claude\ndeliver: {as: pull-request, " + settings + "}\n"))
		if (err == nil) != valid || err != nil &&
			!strings.Contains(err.Error(),
				"deliver.dependents: stack is not valid together with squash") {
			t.Errorf("%s: %v", settings, err)
		}
	}
}
