package rollout

import (
	"testing"

	"teleport-update/find"
)

// A host that sends its name as find.HostID has it is the one that a server knows by that name.
func TestAHostIsTheSameByItsNameAndByTheIDThatItSends(t *testing.T) {
	for name, known := range map[string]bool{
		"11111111-2222-3333-4444-555555555555":   true,
		"AAAAAAAA-2222-3333-4444-555555555555":   true,
		"123456789012-i-0123456789abcdef0":       true,
		"123456789012-i-01234567":                true,
		"123456789012-i-0123":                    false,
		"123456789012-i-0123456789abcdef0\n":     false,
		"123456789012-i-0123456789ABCDEF0":       false,
		"1123456789012-i-0123456789abcdef0":      false,
		"web-1":                                  false,
		"":                                       false,
		"{11111111-2222-3333-4444-555555555555}": false,
	} {
		id, ok := find.HostID(name)
		if _, isUUID := ParseUUID(id); ok != known || ok != isUUID || ok && ParseHostID(id) != ParseHostID(name) {
			t.Errorf("%q is sent as %q, %v, and known as %v", name, id, ok, ParseHostID(name))
		}
	}
}
