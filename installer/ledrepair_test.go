package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/installer/host"
)

// A unit that somebody wrote, and that leads the running agent elsewhere, stays in a repair; the links go back all the same, and status
// says of each what a repair does.
func TestARepairBesideAUnitThatLeadsElsewhere(t *testing.T) {
	h := newWellHost(t)
	tree, ok, err := h.Machine.Active(h.config)
	if err == nil && !ok {
		h.state(t)
		tree, ok, err = h.Machine.Active(h.config)
	}
	if err != nil || !ok {
		t.Fatal("no version is active", err)
	}
	must(t, h.Machine.Host.WriteOriginals(host.Originals{})) // of an enabled host
	unit, link := h.Machine.Host.Paths.Unit(), filepath.Join(h.Machine.Host.Paths.LinkDir, "tsh")
	written := "[Service]\nExecStart=" + filepath.Join(h.Machine.Host.Paths.LinkDir, "teleport") + " start --data-dir=/srv/teleport\n"
	writeFile(t, unit, written)
	must(t, os.Chtimes(unit, noon, noon))
	h.unit.Since = noon.Add(time.Hour)
	must(t, os.Remove(link))
	h.state(t)
	r, err := h.Status(t.Context(), StatusOptions{})
	must(t, err)
	said := 0
	for _, c := range r.Conditions {
		if c.Type != decision.LinksBroken {
			continue
		}
		said++
		if stays := strings.HasPrefix(c.Message, unit); strings.Contains(c.Message, "a repair leaves it") != stays {
			t.Errorf("status says %q", c.Message)
		}
	}
	if said != 2 {
		t.Errorf("%d conditions tell of links and unit: %+v", said, r.Conditions)
	}
	must(t, h.repairLinks(t.Context(), tree))
	now, err := os.ReadFile(unit)
	must(t, err)
	if to, err := os.Readlink(link); err != nil || !strings.HasPrefix(to, tree.ProgramsDir()) || string(now) != written {
		t.Errorf("the link leads to %q, %v; the unit is\n%s", to, err, now)
	}
}
