package versions

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

// A tick reads no program, but one that was written to since the version was published: `cp` writes through a link.
func TestALookSeesWhatWasWrittenThroughALink(t *testing.T) {
	tree := publish(t, testStore(t), oss("15.1.1"))
	if err := tree.CheckPresent(t.Context()); err != nil || tree.AgentChanged() {
		t.Fatalf("as it was published: %v, changed: %v", err, tree.AgentChanged())
	}
	link := t.TempDir() + "/teleport"
	must(t, os.Symlink(tree.Binary("teleport"), link))
	time.Sleep(20 * time.Millisecond) // longer than the kernel's clock of files stands still
	must(t, os.WriteFile(link, []byte("another"), 0o755))
	must(t, os.Chtimes(link, time.Unix(0, 0), time.Unix(0, 0))) // `cp -p` brings the time of its source
	damaged, ok := errors.AsType[*DamagedError](tree.CheckPresent(t.Context()))
	if want := []string{"bin/teleport: content changed"}; !ok || !slices.Equal(damaged.Files, want) || !tree.AgentChanged() {
		t.Errorf("damage %v; want %q", damaged, want)
	}
}

// Labels, a restored backup and `touch` change when a file changed, and not what is in it.
func TestWhatIsWholeAllTheSameIsReadOnce(t *testing.T) {
	for name, look := range map[string]struct {
		look  func(Tree, context.Context) error
		since time.Duration
		again bool
	}{
		"a look that changes nothing": {Tree.CheckPresent, 2 * clockStep, true},
		"one that notes it":           {Tree.SeeWhole, 2 * clockStep, false},
	} {
		tree := publish(t, testStore(t), oss("15.1.1"))
		time.Sleep(20 * time.Millisecond)
		must(t, os.Chmod(tree.Binary("teleport"), 0o755))
		if !tree.AgentChanged() {
			t.Fatal("a change of the mode is not seen")
		}
		time.Sleep(look.since)
		if err := look.look(tree, t.Context()); err != nil || tree.AgentChanged() != look.again {
			t.Errorf("%s: %v; it would be read again: %v", name, err, tree.AgentChanged())
		}
	}
}

// What changes while it is read may be another file by then: it is read again the next time.
func TestWhatChangesDuringALookIsReadAgain(t *testing.T) {
	for range 10 { // on a busy machine the look may begin too late
		tree := publish(t, testStore(t), oss("15.1.1"))
		time.Sleep(2 * clockStep)
		must(t, os.Chmod(tree.Binary("teleport"), 0o755))
		must(t, tree.SeeWhole(t.Context()))
		if tree.AgentChanged() {
			return
		}
	}
	t.Fatal("it would never be read again")
}
