package transaction

import (
	"errors"
	"fmt"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/space"
)

func TestACauseIsTheBitThatClustersKnow(t *testing.T) {
	reload := &reloadError{errors.New("no answer")}
	for want, cause := range map[int]error{
		0: errors.New("something else"),
		1: fmt.Errorf("back up the database: %w", &space.Error{Path: "/"}),
		2: fmt.Errorf("transaction: %w", reload),
		3: errors.Join(reload, &space.Error{Path: "/"}),
	} {
		if got := ErrorCode(cause); got != want {
			t.Errorf("%v: %d; want %d", cause, got, want)
		}
	}
}

// It is in the journal, for another process may come to write it down.
func TestTheCauseOfAnUndoneTransactionIsWrittenDown(t *testing.T) {
	m := testMachine(t)
	writeFile(t, m.Host.Paths.Config(), wholeConfig)
	tr := m.open(t, rollingBack, func(j *state.Journal) {
		j.Unit.Path = m.Host.Paths.Unit()
		j.Verdict = state.Verdict{Reason: "it is full", Against: state.AgainstCircumstances, ErrorCode: 1}
	})
	must(t, tr.undo(t.Context()))
	c, err := state.LoadConfig(m.Host.Paths.Config())
	must(t, err)
	if u := c.Status.LastUpdate; u == nil || u.ErrorCode != 1 {
		t.Errorf("updates.yaml says %+v", u)
	}
}
