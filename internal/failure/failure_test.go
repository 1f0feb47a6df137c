package failure

import (
	"errors"
	"io/fs"
	"testing"
)

func TestTheThreePartsOfAnError(t *testing.T) {
	met := Unchanged("read %s: %w", "it", fs.ErrNotExist)
	for want, err := range map[string]error{
		"read it: file does not exist; nothing was changed":  met,
		"gone; nothing was changed: look at a":               Unchanged("gone").To("look at %s", "a"),
		"gone; nothing was changed: wait":                    Unchanged("gone").To("wait").Refused(),
		"gone; version 2 is proven: wait":                    In("version 2 is proven", Unchanged("gone").To("wait")),
		"read it: file does not exist; the agent stays on 1": In("the agent stays on 1", met),
		"file does not exist":                                In("the agent stays on 1", fs.ErrNotExist),
		"it is refused":                                      Refuse("it is %s", "refused"),
	} {
		if err.Error() != want {
			t.Errorf("%q; want %q", err, want)
		}
	}
	if !errors.Is(In("x", met), fs.ErrNotExist) {
		t.Error("what happened is lost")
	}
	if _, refused := errors.AsType[*RefusedError](met.Refused()); !refused {
		t.Error("it is not refused")
	}
	if In("x", nil) != nil {
		t.Error("no error became one")
	}
}
