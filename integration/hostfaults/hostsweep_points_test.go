//go:build hosts

package hostfaults

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"teleport-update/integration/sample"
)

// point is where to kill: at the entry or at the exit of a call.
type point struct {
	call   int
	exit   bool
	reboot bool   // the host boots anew instead of a run that recovers
	before string // in place of call: entriesOnly the first call about a path with this in it
	cut    bool   // the disk is stopped there, as by a power cut
}

// noPoint is beyond the end of any transaction.
const noPoint = 1 << 30

func (p point) String() string {
	what := "before"
	if p.exit {
		what = "after"
	}
	if p.reboot {
		return fmt.Sprintf("%s call %d, then a boot", what, p.call)
	}
	return fmt.Sprintf("%s call %d", what, p.call)
}

// pointOf numbers the points. Every ninth has a boot, so that over two points a
// call all kinds of calls have some.
func pointOf(n int64) point {
	return point{call: int(n/2) + 1, exit: n%2 == 1, reboot: n%9 == 4}
}

// order gives out the numbers of points, spread over the transaction: a slow machine, which does not come to the end of
// them, has some all along it.
type order struct {
	first, last, stride int64

	mu     sync.Mutex
	spread []int64
	taken  int64
}

// everyPoint is each point from the first one on, with a stride.
func everyPoint(stride int64) *order { return &order{last: math.MaxInt64, stride: stride} }

// begin has those up to an end spread.
func (o *order) begin(end int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := o.first; n <= min(o.last, end); n += o.stride {
		o.spread = append(o.spread, n)
	}
	o.spread = sample.Spread(o.spread)
}

// take returns the next point; false: there is none up to the end, which has come later if a run had more calls.
func (o *order) take(end int64) (n int64, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n = o.first + o.stride*o.taken
	if o.taken < int64(len(o.spread)) {
		n, end = o.spread[o.taken], math.MaxInt64
	}
	o.taken++
	return n, n <= min(o.last, end)
}

func TestAllPointsAreGivenOutAndTheFirstOnesAreAllAlong(t *testing.T) {
	for _, tc := range []struct {
		name  string
		order *order
		later int64 // a run has so much more
		want  int
	}{
		{"a stride", everyPoint(11), 0, 44},
		{"each one", everyPoint(1), 0, 481},
		{"from another one on", &order{first: 90, last: math.MaxInt64, stride: 97}, 0, 5},
		{"between two", &order{first: 100, last: 119, stride: 2}, 0, 10},
		{"a run with more calls", everyPoint(11), 22, 46},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const end = 480
			o := tc.order
			o.begin(end)
			var points, want []int64
			for n, more := o.take(end + tc.later); more; n, more = o.take(end + tc.later) {
				points = append(points, n)
			}
			for n := o.first; n <= min(o.last, end+tc.later); n += o.stride {
				want = append(want, n)
			}
			if few := points[:min(len(points), sample.Least)]; len(points) > 40 && slices.Max(few) < end*3/4 {
				t.Errorf("the first points are %v", few)
			}
			if slices.Sort(points); len(points) != tc.want || !slices.Equal(points, want) {
				t.Errorf("there are %d points; want %d: %v", len(points), tc.want, points)
			}
		})
	}
}
