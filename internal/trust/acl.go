package trust

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// POSIX ACLs in the kernel's form (linux/posix_acl_xattr.h): a version, then entries
// of a tag, the rights and an id. The mode's group bits are the mask of all entries except the
// owner's and everybody's, so that a file without these bits is open to nobody by an ACL.
const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default" // new files in a folder get this
	aclVersion = 2
	aclHeader  = 4
	aclEntry   = 8

	aclUser     = 0x02
	aclGroup    = 0x08
	aclMask     = 0x10
	aclMayWrite = 2
)

// writerByACL returns a user or group, not root's, that may write the file at path by an ACL of
// that name, or "". A file system without ACLs has none.
func writerByACL(path, name string) (string, error) {
	acl := make([]byte, 64<<10) // the kernel's limit
	n, err := unix.Lgetxattr(path, name, acl)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return "", nil
	}
	if err != nil {
		return "", &os.PathError{Op: "read the ACL of", Path: path, Err: err}
	}
	acl = acl[:n]
	if n < aclHeader || (n-aclHeader)%aclEntry != 0 || binary.LittleEndian.Uint32(acl) != aclVersion {
		return "", fmt.Errorf("the ACL of %s has a form that is not known", path)
	}
	writer, mask := "", uint16(aclMayWrite)
	for e := acl[aclHeader:]; len(e) > 0; e = e[aclEntry:] {
		tag, rights, id := binary.LittleEndian.Uint16(e), binary.LittleEndian.Uint16(e[2:]), binary.LittleEndian.Uint32(e[4:])
		switch {
		case tag == aclMask:
			mask = rights
		case id == 0 || rights&aclMayWrite == 0:
		case tag == aclUser:
			writer = fmt.Sprintf("user %d", id)
		case tag == aclGroup:
			writer = fmt.Sprintf("group %d", id)
		}
	}
	if mask&aclMayWrite == 0 {
		return "", nil
	}
	return writer, nil
}
