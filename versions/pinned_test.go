package versions

import (
	"testing"

	"teleport-update/internal/pinned"
)

func TestTheNoteOfAKeptDownloadHasNamesInOneSpelling(t *testing.T) { pinned.Tags(t, "json", keptNote{}) }
