package survey

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"
)

// A drop-in may be late by its folder, or by any link between it and its content.
func TestADropInIsLateByEachLinkOnItsWay(t *testing.T) {
	for name, tc := range map[string]struct {
		links map[string]string // what leads where, in the folder of the test
		file  string            // the drop-in
		late  string            // what is mounted late; empty: srv
		want  bool
	}{
		"a file in a folder that is there": {file: "etc/d/a.conf"},
		"a file in a folder that is late":  {file: "srv/d/a.conf", want: true},
		"a link to a file that is there":   {links: map[string]string{"etc/d/b.conf": "/etc/d/a.conf"}, file: "etc/d/b.conf"},
		"a link to a file that is late": {links: map[string]string{"etc/d/b.conf": "/srv/d/a.conf"}, file: "etc/d/b.conf",
			want: true},
		"a link in the folder of units": {links: map[string]string{"units/d/b.conf": "/srv/d/a.conf"}, file: "units/d/b.conf",
			want: true},
		"a file in the folder of units, which is there": {file: "units/d/a.conf"},
		"a link that is late itself": {links: map[string]string{"srv/d/b.conf": "/etc/d/a.conf"}, file: "srv/d/b.conf",
			want: true},
		"a link by way of a late one": {links: map[string]string{"etc/d/b.conf": "/srv/d/b.conf", "srv/d/b.conf": "/etc/d/a.conf"},
			file: "etc/d/b.conf", want: true},
		"a link of two": {links: map[string]string{"etc/d/c.conf": "b.conf", "etc/d/b.conf": "../../srv/d/a.conf"}, file: "etc/d/c.conf",
			want: true},
		"a folder that leads to a late one": {links: map[string]string{"etc/e": "../srv/d"}, file: "etc/e/a.conf",
			want: true},
		"a folder that leads to a late one, by way of one that is there": {links: map[string]string{"etc/e": "f", "etc/f": "../srv/d"},
			file: "etc/e/a.conf", want: true},
		"a folder that leads to the place of a mount": {links: map[string]string{"etc/e": "../srv"}, file: "etc/e/a.conf",
			want: true},
		"a folder that is a mount": {file: "srv/a.conf", want: true},
		"a folder of the updater's that leads to a late one": {links: map[string]string{"units/e": "../srv/d"}, file: "units/e/a.conf",
			want: true},
		"a folder on the mount of the updater's, which has a row of its own": {file: "units/d/a.conf", late: "units"},
		"a folder of the updater's that is a mount": {file: "units/d/a.conf", late: "units/d",
			want: true},
		"a late folder that leads to one that is there": {links: map[string]string{"srv/d/e": "../../etc/d"}, file: "srv/d/e/a.conf",
			want: true},
	} {
		s, root := surveyOf(t, counted{reads: map[string]int{}})
		for _, dir := range []string{"etc/d", "srv/d", "units/d"} {
			check(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
			check(t, os.WriteFile(filepath.Join(root, dir, "a.conf"), nil, 0o644))
		}
		check(t, os.WriteFile(filepath.Join(root, "proc/self/mountinfo"),
			[]byte("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / "+root+"/"+cmp.Or(tc.late, "srv")+" rw - ext4 /dev/sda2 rw\n"), 0o644))
		for link, to := range tc.links {
			if filepath.IsAbs(to) {
				to = root + to
			}
			check(t, os.Symlink(to, filepath.Join(root, link)))
		}
		got, err := s.lateDropIn(filepath.Join(root, tc.file))
		check(t, err)
		mount := filepath.Join(root, cmp.Or(tc.late, "srv"))
		if (got != nil) != tc.want || got != nil && *got != (LateDropIn{File: filepath.Join(root, tc.file), Mount: mount}) {
			t.Errorf("%s: %+v; want it late: %t", name, got, tc.want)
		}
	}
}

// A link that masks a drop-in leads to /dev/null, which systemd has before it reads units. Links in a ring are an error.
func TestALinkToNothingIsNotLate(t *testing.T) {
	s, root := surveyOf(t, counted{reads: map[string]int{}})
	check(t, os.WriteFile(filepath.Join(root, "proc/self/mountinfo"),
		[]byte("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /dev rw - devtmpfs udev rw\n"), 0o644))
	mask, ring := filepath.Join(root, "mask.conf"), filepath.Join(root, "ring.conf")
	check(t, os.Symlink("/dev/null", mask))
	check(t, os.Symlink(ring, ring))
	if got, err := s.lateDropIn(mask); got != nil || err != nil {
		t.Errorf("a mask: %+v, %v", got, err)
	}
	if got, err := s.lateDropIn(ring); err == nil {
		t.Errorf("a ring: %+v", got)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
