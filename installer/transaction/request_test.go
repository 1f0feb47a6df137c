package transaction

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzOrder: what another process of this program asks for.
func FuzzOrder(f *testing.F) {
	f.Add([]byte(`{"switch":{"kind":"update","from":{"version":"1.0.0","edition":"oss"},"to":{"version":"1.1.0","edition":"oss"}}}`))
	f.Add([]byte(`{"switch":{"kind":"update","command":"reboot"}}`))
	f.Add([]byte(strings.Repeat("[", 1000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if o, err := ReadOrder(bytes.NewReader(data)); err != nil && o != (Order{}) {
			t.Errorf("%+v came with %v", o, err)
		}
	})
}
