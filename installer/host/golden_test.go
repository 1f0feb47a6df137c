package host

import (
	"encoding/json"
	"testing"

	"teleport-update/internal/golden"
)

func TestTheRecordOfOriginalsKeepsItsForm(t *testing.T) {
	golden.Tags(t, "json", Originals{})
	var o Originals
	golden.Fill(&o)
	data, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/before.json", string(data)+"\n")
}
