package fetch

import (
	"testing"

	"teleport-update/internal/golden"
)

func TestTheNoteOfAKeptDownloadHasNamesInOneSpelling(t *testing.T) {
	golden.Tags(t, "json", partInfo{})
}
