package answers

import (
	"teleport-update/find/rollout"
)

// Channel implements GroupSource.
func (s *Stored) Channel(group string) (string, bool) {
	n := s.current.Load()
	if !s.mayUpdate() || n.find == nil && !n.base.AutoUpdate {
		return "", false
	}
	if n.find == nil {
		return n.base.Version, false
	}
	v, critical := n.find.Channel(group, s.opts.Clock())
	return string(v), critical
}

// Window implements GroupSource.
func (s *Stored) Window(group string) (rollout.Window, bool) {
	if n := s.current.Load(); n.find != nil {
		return n.find.Window(group)
	}
	return rollout.Window{}, false
}
