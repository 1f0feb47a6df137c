package host

import (
	"encoding/json"
	"testing"

	"teleport-update/internal/pinned"
)

func TestTheRecordOfOriginalsIsPinned(t *testing.T) {
	pinned.Tags(t, "json", Originals{})
	var o Originals
	pinned.Fill(&o)
	data, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	pinned.File(t, "testdata/before.json", string(data)+"\n")
}
