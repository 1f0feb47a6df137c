// Package sharedbuffer holds what a process or a goroutine writes while a test reads it.
package sharedbuffer

import (
	"bytes"
	"sync"
)

// Buffer is an io.Writer that several goroutines may use at the same time. The zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}
