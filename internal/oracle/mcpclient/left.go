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

// mark is what the file of a call says while the call is under way: which program makes it.
type mark struct {
	process.ID
	Session string `json:"session"`
}

// markName is the file of a call, which may have any key.
func (c *Client) markName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(c.opts.Calls, hex.EncodeToString(sum[:16])+".json")
}

// mark notes which program a call is made by, until what it returns is called. The file need not survive a power cut, which
// the program does not either, so it is not synced.
func (c *Client) mark(key string, s *session) (unmark func(), err error) {
	if key == "" || c.opts.Calls == "" || s.program == nil {
		return func() {}, nil
	}
	text, err := json.Marshal(mark{s.program.process.ID(), s.program.session})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.opts.Calls, 0o700); err != nil {
		return nil, fmt.Errorf("the call cannot be noted, and was not made: %w", err)
	}
	name := c.markName(key)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return nil, fmt.Errorf("the call cannot be noted, and was not made: %w", err)
	}
	return func() { os.Remove(name) }, nil // one that stays names a program that is gone by then
}

// endCall ends the program that a call was made by, if a process that was killed has left it behind. Whoever calls it knows
// that nobody waits for the call any more.
func (c *Client) endCall(key string) error {
	if key == "" || c.opts.Calls == "" {
		return nil
	}
	name := c.markName(key)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var m mark
	if json.Unmarshal(text, &m) != nil || m.Session == "" {
		return removeAny(name) // it was killed while it wrote this, and had not made the call
	}
	c.mu.Lock()
	own := c.session.program != nil && c.session.program.process.ID() == m.ID
	c.mu.Unlock()
	if own {
		return nil
	}
	if _, err := process.EndOrphan(m.ID, c.opts.Grace); err != nil {
		return err
	}
	if _, err := process.EndSession(m.Session, c.opts.Grace); err != nil {
		return err
	}
	return removeAny(name)
}

func removeAny(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
