package transaction

import "fmt"

// advance notes that a step is done. With a version that is proven goes how the
// agent is enabled: what is missing at the commit was taken away in between, not by
// a person who disabled the agent during the watch.
func (t *transaction) advance(s step) error {
	if s.enters == proven {
		links, err := t.m.Host.EnabledBy()
		if err != nil {
			return fmt.Errorf("see how the agent is enabled: %w", err)
		}
		if err := t.j.setEnabledBy(links); err != nil {
			return err
		}
	}
	return t.j.advance(s)
}

// enterProven is the point from which there is only forward.
func (t *transaction) enterProven() error {
	all := steps()
	return t.advance(all[len(all)-1])
}
