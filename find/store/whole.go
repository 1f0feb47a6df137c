package store

import (
	"context"
	"net/url"
	"os"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
)

// checkAtOnce is the largest size of a file, in bytes, that is read completely before its use: damage is better found
// then than in the answer to a host. A larger file is read during its use. The file of a million hosts has 450 MB: after
// a boot, no host would get an answer until the disk has read them.
const checkAtOnce = 16 << 20

// later is the check of a file that is in use.
type later struct {
	damage atomic.Pointer[error]
	stop   context.CancelFunc
	ended  chan struct{}
}

// follow ends the check, and begins the check of the file that is now in use; it returns nil for a file that was checked
// when it was opened.
func (l *later) follow(file os.FileInfo, path, vfs string) *later {
	l.end()
	if file.Size() <= checkAtOnce {
		return nil
	}
	return checkLater(path, vfs)
}

func checkLater(path, vfs string) *later {
	ctx, stop := context.WithCancel(context.Background())
	l := &later{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		if err := checkWhole(ctx, path, vfs); err != nil {
			l.damage.Store(&err)
		}
	}()
	return l
}

// checkWhole returns the damage of the file. If the file cannot be read, or the check was ended, it returns nil.
func checkWhole(ctx context.Context, path, vfs string) error {
	address := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"vfs": {vfs}}.Encode()}
	c, err := sqlite3.OpenFlags(address.String(), sqlite3.OPEN_READONLY|sqlite3.OPEN_URI|sqlite3.OPEN_NOFOLLOW)
	if err != nil {
		return nil
	}
	defer c.Close()
	c.SetInterrupt(ctx)
	err = explain(check(c))
	if _, damaged := err.(*damagedError); damaged {
		return err
	}
	return nil
}

// found returns the damage that was found so far; nil for no damage, and without a check.
func (l *later) found() error {
	if l == nil {
		return nil
	}
	if damage := l.damage.Load(); damage != nil {
		return *damage
	}
	return nil
}

// end returns when the check has ended.
func (l *later) end() {
	if l != nil {
		l.stop()
		<-l.ended
	}
}
