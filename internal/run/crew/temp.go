package crew

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"signalbox/internal/contain"
	"signalbox/internal/run/agentsocket"
)

// Every session of an agent has a private folder for temporary files. It contains the session's
// socket, and is removed when the session ends. It is in the box, under the name of the session, so
// that it can be found after a crash.

// socketName is the name of the socket in the folder. It begins with a full stop, so that an agent
// that deletes its temporary files keeps it.
const socketName = ".signalbox.sock"

// place is where temporary folders of sessions can be: in a folder, under the name of the session
// with a prefix.
type place struct{ dir, prefix string }

// tempPlaces returns the places for temporary folders, the preferred one first. The path of a
// socket has a limit, so a box with a long path needs another place.
func (c *Crew) tempPlaces() []place {
	const prefix = "signalbox-"
	return []place{{c.file(contain.TempFolder), ""}, {os.TempDir(), prefix}, {"/tmp", prefix}}
}

// makeTemp creates the temporary folder of a session.
func (c *Crew) makeTemp(session string) (string, error) {
	if err := os.MkdirAll(c.file(contain.TempFolder), 0o700); err != nil {
		return "", err
	}
	for _, p := range c.tempPlaces() {
		// the agent works in another folder
		dir, err := filepath.Abs(filepath.Join(p.dir, p.prefix+session))
		if err != nil {
			return "", err
		}
		if len(filepath.Join(dir, socketName)) > agentsocket.MaxPath {
			continue
		}
		if err := os.Mkdir(dir, 0o700); err != nil { // a folder that exists may be someone else's
			return "", fmt.Errorf("create a temporary folder for the agent: %w", err)
		}
		return dir, nil
	}
	return "", errors.New(
		"create a temporary folder for the agent: all paths are too long for a socket")
}

// removeTemps removes the temporary folders of the sessions of a killed crew.
func (c *Crew) removeTemps(owner string) error {
	var errs []error
	for i, p := range c.tempPlaces() {
		entries, _ := os.ReadDir(p.dir) // there is none if no session had one
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), p.prefix+owner+".") {
				continue
			}
			// elsewhere it may be someone else's
			if err := contain.RemoveAll(filepath.Join(p.dir, entry.Name())); err != nil && i == 0 {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
