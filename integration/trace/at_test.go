package trace

import (
	"path/filepath"
	"slices"
	"testing"
)

// What is not asked about is counted all the same: a point has the same number
// whether a run was asked about all calls or about one.
func TestOneCallAloneIsAskedAbout(t *testing.T) {
	t.Parallel()
	var all []Call
	note := func(to *[]Call) func(Call) Action {
		return func(c Call) Action {
			c.TID, c.Path, c.To = 0, filepath.Base(c.Path), filepath.Base(c.To)
			*to = append(*to, c)
			return GoOn()
		}
	}
	whole := mustRun(t, inRole("steps", t.TempDir()), note(&all))
	for at := range whole.Calls + 2 {
		if at == 0 {
			continue // all
		}
		var want, got []Call
		for _, c := range all {
			if c.Index == at {
				want = append(want, c)
			}
		}
		c := inRole("steps", t.TempDir())
		c.At = at
		r := mustRun(t, c, note(&got))
		if !slices.Equal(got, want) || r.Calls != whole.Calls {
			t.Errorf("asked about call %d of %d: %v of %d; want %v", at, whole.Calls, got, r.Calls, want)
		}
	}
}
