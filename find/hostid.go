package find

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"sync"
)

// hostShapes are the forms of a host_uuid. Most hosts do not need the second one.
var (
	uuidShape = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	})
	ec2Shape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{12}-i-[0-9a-f]{8,17}$`) })
)

// HostID returns the UUID that names a host to find, from the host_uuid of its agent: the same UUID, or, for
// an agent that joined with the method ec2 and is called ACCOUNT-INSTANCE, the digest that find servers use
// for such a name. ok is false for any other text.
func HostID(hostUUID string) (id string, ok bool) {
	switch {
	case uuidShape().MatchString(hostUUID):
		return hostUUID, true
	case ec2Shape().MatchString(hostUUID):
		d := sha256.Sum256([]byte(hostUUID))
		return fmt.Sprintf("%x-%x-%x-%x-%x", d[:4], d[4:6], d[6:8], d[8:10], d[10:16]), true
	}
	return "", false
}
