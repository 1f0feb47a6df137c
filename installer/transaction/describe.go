package transaction

import "teleport-update/installer/state"

// Description is an open transaction as it is told to a person.
type Description struct {
	state.Journal
	Working string // what an updater does that is at work on it
	CutOff  string // what is to be done where none is
}

// Describe reads the open transaction; nil when there is none. Its errors are those of
// state.LoadJournal.
func Describe(path string) (*Description, error) {
	j, err := load(path)
	if j == nil || err != nil {
		return nil, err
	}
	row, _ := phaseOf(j.Phase)
	return &Description{j.Journal, row.working(&j.Journal), row.cutOff(&j.Journal)}, nil
}
