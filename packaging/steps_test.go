package packaging

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// A person who waits for packages learns what is made, and how much of all is done.
func TestEachStepOfABuildIsNamed(t *testing.T) {
	skipBuild(t)
	var steps []string
	o := Options{
		Module: "..", Out: t.TempDir(), Version: "1.2.3", Date: time.Unix(1_700_000_000, 0), Arch: []string{runtime.GOARCH},
		Formats: []string{"program"}, Programs: []string{"teleport-find"},
		Step: func(what string, done, all int64) { steps = append(steps, fmt.Sprintf("%d/%d %s", done, all, what)) },
	}
	if _, err := Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	arch := runtime.GOARCH
	want := []string{"0/3 build nfpm", "1/3 build teleport-find for " + arch, "2/3 make teleport-find-1.2.3-linux-" + arch}
	if !slices.Equal(steps, want) {
		t.Errorf("the steps are %q; want %q", steps, want)
	}
}
