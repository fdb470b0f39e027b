package config

import (
	"os"
	"path/filepath"
)

// UserFolder returns the folder with what signalbox keeps for a user outside all boxes: the keys
// that sign checkpoints, and what the user trusts. Programs that agents write must not read or
// change it.
func UserFolder() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "signalbox"), nil
}
