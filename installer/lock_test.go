package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestALockThatIsHeldNamesItsHolderWhenPatienceEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "update.lock")
	unlock, err := lock(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, patience := range []time.Duration{0, 150 * time.Millisecond} {
		_, err := lock(t.Context(), path, patience)
		var busy *BusyError
		if !errors.As(err, &busy) || !strings.Contains(busy.Holder, fmt.Sprintf("process %d", os.Getpid())) {
			t.Errorf("with patience %v: %v; want a busy error that names this process", patience, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ctx, path, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: %v", err)
	}
	unlock()
	unlock, err = lock(t.Context(), path, 0)
	if err != nil {
		t.Fatalf("a lock that was given back cannot be taken: %v", err)
	}
	unlock()
}
