package decision

import (
	"fmt"
	"path/filepath"
	"slices"

	"teleport-update/installer/survey"
)

// describeLate names drop-ins that systemd does not find at boot, and for each a command that puts it into a folder that is there at boot:
// dir, unless its own folder can become one. A command for a whole folder is given once: it would fail a second time.
func describeLate(dropIns []survey.LateDropIn, dir string) (all []string) {
	for _, d := range dropIns {
		if text := lateDropIn(d, dir); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

func lateDropIn(d survey.LateDropIn, dir string) string {
	const (
		follows = "the agent is started without it after the next boot"
		without = "the agent is started without its drop-ins after the next boot"
		late    = "is on a file system that is mounted after systemd has read its units at boot"
	)
	folder := filepath.Dir(d.File)
	switch {
	case d.Target != "":
		return fmt.Sprintf("%[1]s leads to %[2]s, which is not there yet when systemd reads its units at boot: %[3]s. "+
			"`cp --remove-destination \"$(readlink -f %[1]s)\" %[1]s && systemctl daemon-reload` replaces the link by a copy of its content",
			d.File, d.Target, follows)
	case d.Leads != "": // its files may be links too, into a late mount, or relative
		return fmt.Sprintf("%[1]s leads to %[2]s, which is not there yet when systemd reads its units at boot: %[3]s. "+
			"`cp -rLT %[1]s %[1]s.new && rm %[1]s && mv -T %[1]s.new %[1]s && systemctl daemon-reload` replaces the link by a folder with "+
			"copies of its content", folder, d.Leads, without)
	case d.Mount && folder == dir: // a folder elsewhere is left for this one, below
		return fmt.Sprintf("%[1]s %[2]s: %[3]s. `t=$(mktemp -d) && cp -rLT %[1]s \"$t\" && umount %[1]s && cp -rT \"$t\" %[1]s && "+
			"systemctl daemon-reload` puts copies of its content into the folder below the mount; then remove the mount from /etc/fstab, "+
			"or its unit", folder, late, without)
	case folder == dir:
		return fmt.Sprintf("%s %s: %s. Move %s to a file system that is mounted before that, such as the one of /", d.File, late, follows,
			filepath.Dir(folder))
	case d.Link: // a link that is moved may lead elsewhere
		return fmt.Sprintf("%[1]s %[4]s: %[3]s. "+
			"`mkdir -p %[2]s && cp %[1]s %[2]s && rm %[1]s && systemctl daemon-reload` puts its content into a folder that is there",
			d.File, dir, follows, late)
	}
	return fmt.Sprintf("%[1]s %[4]s: %[3]s. "+
		"`mkdir -p %[2]s && mv %[1]s %[2]s && systemctl daemon-reload` moves it to a folder that is there", d.File, dir, follows, late)
}
