package trust

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const other = 1234 // a user, and a group

// entry is an entry of an ACL beside those for the owner, the group and everybody.
type entry struct {
	tag uint16
	id  uint32
	may uint16 // rights: 4 to read, 2 to write, 1 to execute or to enter
}

func (e entry) String() string {
	return map[uint16]string{aclUser: "user", aclGroup: "group"}[e.tag] + fmt.Sprintf(" %d may %d", e.id, e.may)
}

// acl is what the kernel takes for an ACL. Each of its entries is in the order of tags.
func acl(e entry, group, mask uint16) []byte {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	add := func(tag, may uint16, id uint32) {
		b = binary.LittleEndian.AppendUint16(b, tag)
		b = binary.LittleEndian.AppendUint16(b, may)
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	const nobody = 0xffffffff
	add(0x01, 7, nobody)
	if e.tag == aclUser {
		add(e.tag, e.may, e.id)
	}
	add(0x04, group, nobody)
	if e.tag == aclGroup {
		add(e.tag, e.may, e.id)
	}
	add(aclMask, mask, nobody)
	add(0x20, 5, nobody)
	return b
}

// acls are ACLs with each kind of entry, with what each entry says, and the mask.
func acls() (values [][]byte, names []string) {
	for _, tag := range []uint16{aclUser, aclGroup} {
		for _, id := range []uint32{0, other} {
			for _, may := range []uint16{0, 4, 5, 7} {
				for _, mask := range []uint16{5, 7} {
					for _, group := range []uint16{5, 7} {
						e := entry{tag, id, may}
						values = append(values, acl(e, group, mask))
						names = append(names, fmt.Sprintf("%s, group %d, mask %d", e, group, mask))
					}
				}
			}
		}
	}
	return values, names
}

// Whether another user may write by an ACL is not reckoned here: that user tries.
func TestWhoMayWriteByAnACLIsSeen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	top := t.TempDir()
	chmod(t, filepath.Dir(top), 0o755) // other users get here
	seen := map[bool]int{}
	tries := func(command string) bool {
		cmd := exec.Command("sh", "-c", command)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
		could := cmd.Run() == nil
		seen[could]++
		return could
	}
	values, names := acls()
	for n, value := range values {
		dir := filepath.Join(top, fmt.Sprint(n))
		file, made := filepath.Join(dir, "teleport"), filepath.Join(dir, "made")
		mkdir(t, dir, 0o755)
		write(t, file, 0o755)
		set := func(path, name string) {
			if err := unix.Setxattr(path, name, value, 0); err != nil {
				t.Fatalf("no ACL can be set: %v", err)
			}
		}
		unset := func(path string) {
			if err := unix.Removexattr(path, aclAccess); err != nil {
				t.Fatal(err)
			}
			chmod(t, path, 0o755)
		}
		judge := func(what string, could bool, err error) {
			if (err != nil) != could {
				t.Errorf("%s, of %s: another user can write it: %v; it is judged %v", names[n], what, could, err)
			}
		}

		set(file, aclAccess)
		judge("a file", tries(": >>"+file), Executable(file))
		unset(file)

		set(dir, aclAccess)
		could := tries("mv " + file + " " + file + ".old && mv " + file + ".old " + file)
		judge("the folder of a file", could, Executable(file))
		judge("a folder", could, Path(dir))
		judge("the folder of what is not there", could, Path(dir+"/a/b"))
		unset(dir)

		set(dir, aclDefault)
		write(t, made, 0o666)
		judge("what is made in a folder", tries(": >>"+made), Path(dir))
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("another user could write %d times, and could not %d times: the test shows nothing", seen[true], seen[false])
	}
}

func write(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), mode); err != nil {
		t.Fatal(err)
	}
}
