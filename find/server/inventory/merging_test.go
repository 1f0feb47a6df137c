package inventory

import (
	"testing"

	"teleport-update/find/fleet"
)

// Whichever of two records is the later one: no report is taken that any server has refused to take again.
func TestAMergedRecordRefusesWhatEitherRefuses(t *testing.T) {
	for _, sequences := range [][2]uint32{{10, 20}, {20, 10}, {10, 10}} {
		ours, theirs := fleet.Entry{Sequence: sequences[0], Floor: 30}, fleet.Entry{Sequence: sequences[1]}
		for _, changed := range []bool{true, false} {
			if e := merge(ours, theirs, changed); e.Floor != 30 || e.Sequence != max(sequences[0], sequences[1]) {
				t.Errorf("of %v, changed %t, it has the sequence %d and refuses %d", sequences, changed, e.Sequence, e.Floor)
			}
		}
	}
}
