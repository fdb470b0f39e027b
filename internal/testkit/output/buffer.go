package output

import (
	"bytes"
	"sync"
)

// Buffer collects what several goroutines write. The zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
