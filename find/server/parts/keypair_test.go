package parts

import (
	"strings"
	"testing"
	"time"
)

func TestACertificateThatEndsIsSpokenOf(t *testing.T) {
	now := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		end  time.Time
		want string
	}{
		{time.Time{}, ""},
		{now.Add(15 * 24 * time.Hour), ""},
		{now.Add(3*24*time.Hour + time.Minute), "runs out at 2025-06-05 12:01 UTC, in 3 days: renew"},
		{now, "ran out at 2025-06-02 12:00 UTC, and no host"},
	} {
		if got := CertificateTrouble(tc.end, now); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q", tc.end, got)
		}
	}
}
