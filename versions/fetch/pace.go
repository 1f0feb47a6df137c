package fetch

import (
	"fmt"
	"io"
	"slices"
	"time"

	"teleport-update/internal/space"
)

// pace measures how fast a part of the tarball comes, counting only the time that a reader waits
// for its bytes.
type pace struct {
	waited time.Duration
	bytes  int64
}

// read reads, and counts the bytes.
func (p *pace) read(body io.Reader, b []byte) (int, error) {
	begun := time.Now()
	n, err := body.Read(b)
	p.waited += time.Since(begun)
	p.bytes += int64(n)
	return n, err
}

// rest returns how long missing bytes would take at that pace.
func (p *pace) rest(missing int64) time.Duration {
	if p.bytes == 0 || p.waited <= 0 {
		return 0
	}
	return time.Duration(float64(missing) / float64(p.bytes) * float64(p.waited))
}

// tooSlow returns an error if the current mirror would take longer for the rest than Patience
// allows and another may be faster. It judges a mirror only after StallWindow. The only mirror,
// and the last of several slow ones, get all the time they need: slow is better than never.
func (d *download) tooSlow() error {
	p := d.f.Patience
	if d.total < 0 || d.mirrors[0].slow || d.pace.waited < p.StallWindow || !d.others() {
		return nil
	}
	rest := d.pace.rest(d.total - d.offset)
	if p.Slow <= 0 || rest <= p.Slow {
		return nil
	}
	return fmt.Errorf("%s sent %s in %s; the rest would take %s", d.mirrors[0].name,
		space.Format(d.pace.bytes), d.pace.waited.Round(time.Second), rest.Round(time.Minute))
}

// others reports whether there is a mirror after the current one that is not known to be slow.
func (d *download) others() bool {
	return slices.ContainsFunc(d.mirrors[1:], func(m mirror) bool { return !m.slow })
}

// putLast leaves a slow mirror for the next one, and moves it to the end of the list.
func (d *download) putLast(err error) error {
	slow := d.mirrors[0]
	slow.slow = true
	d.close()
	d.mirrors = append(append([]mirror(nil), d.mirrors[1:]...), slow)
	return d.turnTo(err)
}
