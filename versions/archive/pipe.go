package archive

import (
	"errors"
	"io"
	"sync"
)

// errStopped ends a stage whose successor needs no more. It is never the cause
// of a failure.
var errStopped = errors.New("nothing more is needed")

// pipe hands bytes from one stage to the next through a fixed set of buffers,
// so that stages run at the same time in memory that does not grow. One
// goroutine fills, one reads.
type pipe struct {
	size       int // of a buffer, in bytes
	free, full chan []byte
	stopped    chan struct{}
	stop       func()
	err        error // the reason why full was closed

	current, rest []byte // the reader's
}

func newPipe(buffers, size int) *pipe {
	p := &pipe{
		size:    size,
		free:    make(chan []byte, buffers),
		full:    make(chan []byte, buffers),
		stopped: make(chan struct{}),
	}
	p.stop = sync.OnceFunc(func() { close(p.stopped) })
	for range buffers {
		p.free <- nil // made when it is needed
	}
	return p
}

// fill reads r to its end into the pipe. The reader of the pipe gets the bytes, then the error
// that ended them.
func (p *pipe) fill(r io.Reader) {
	p.err = p.copy(r)
	close(p.full)
}

func (p *pipe) copy(r io.Reader) error {
	for {
		var buf []byte
		select {
		case buf = <-p.free:
		case <-p.stopped:
			return errStopped
		}
		if buf == nil {
			buf = make([]byte, p.size)
		}
		n, err := readFull(r, buf[:p.size])
		p.full <- buf[:n] // never blocks: there is room for all buffers
		if err != nil {
			return err
		}
	}
}

func (p *pipe) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.current != nil {
			p.free <- p.current
			p.current = nil
		}
		buf, ok := <-p.full
		if !ok {
			return 0, p.err
		}
		p.current, p.rest = buf, buf
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// readFull fills buf unless r ends or fails before, and returns r's own error.
func readFull(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}
