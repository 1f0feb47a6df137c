package inventory

import (
	"errors"
	"time"

	"teleport-update/find/rollout"
)

// ErrMute refuses a report that no other server would hear of.
var ErrMute = errors.New("this server has not been able to use its store for some minutes, so that no other server would hear of the " +
	"report: report again later")

// wasMute reports whether other servers cannot know any more who has reported to this one: it has not written that for
// longer than a note is good for. The caller holds f.mu.
func (f *Fleet) wasMute() bool { return f.opts.Elapsed()-f.kept > rollout.ReportLife }

func (f *Fleet) isMute() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.opts.Store != nil && f.wasMute()
}

// speak notes that the store has what this server knows. After a time in which it had not, other servers may have been as
// mute, with hosts that are not known here yet.
func (f *Fleet) speak(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wasMute() && f.covered.Before(now) {
		f.opts.Log.Warn("the store could not be written for a while: no group goes on until hosts have had time to report",
			"time", rollout.PresentFor)
		f.covered = now
	}
	f.kept = f.opts.Elapsed()
}
