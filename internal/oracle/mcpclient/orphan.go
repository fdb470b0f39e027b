package mcpclient

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox/internal/process"
)

// callRecord is the content of a file that exists while a call runs. It identifies the program that
// executes the call.
type callRecord struct {
	process.ID
	Session string `json:"session"`
}

// recordPath returns the name of the file of a call. The key is hashed, because it may be any text.
func (c *Client) recordPath(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(c.opts.CallDir, hex.EncodeToString(sum[:16])+".json")
}

// recordCall writes the file of a call; remove deletes it. The file is not synced: after a power
// cut there is no program left to stop.
func (c *Client) recordCall(key string, s *session) (remove func(), err error) {
	if key == "" || c.opts.CallDir == "" || s.program == nil {
		return func() {}, nil
	}
	text, err := json.Marshal(callRecord{s.program.process.ID(), s.program.session})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.opts.CallDir, 0o700); err != nil {
		return nil, fmt.Errorf("the call was not made, because it cannot be recorded: %w", err)
	}
	name := c.recordPath(key)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return nil, fmt.Errorf("the call was not made, because it cannot be recorded: %w", err)
	}
	// a file that cannot be removed does no harm: its program will be gone
	return func() { os.Remove(name) }, nil
}

// endCall stops the program of a call that an earlier, killed process of signalbox left running.
// The caller must know that no process waits for the call.
func (c *Client) endCall(key string) error {
	if key == "" || c.opts.CallDir == "" {
		return nil
	}
	name := c.recordPath(key)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var record callRecord
	if json.Unmarshal(text, &record) != nil || record.Session == "" {
		// the process was killed while it wrote this, before it made the call
		return removeIfExists(name)
	}
	c.mu.Lock()
	own := c.session.program != nil && c.session.program.process.ID() == record.ID
	c.mu.Unlock()
	if own {
		return nil
	}
	if _, err := process.EndOrphan(record.ID, c.opts.Grace); err != nil {
		return err
	}
	if _, err := process.EndSession(record.Session, c.opts.Grace); err != nil {
		return err
	}
	return removeIfExists(name)
}

func removeIfExists(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
