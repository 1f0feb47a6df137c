package policy

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWhatASignatureCosts tells how much longer a release takes with a signature than
// without one, in turns and as medians: one request and one verification, whatever the size
// of the tarball. The goal is 30 ms on a link without latency; the time fails nothing.
func TestWhatASignatureCosts(t *testing.T) {
	key, pub := newKey(t)
	p, off := keysOf(t, pub), Policy{Signatures: Off}
	good := sound("17.3.0")
	signature := text(sign(t, key, string(good)))
	took := map[Mode][]time.Duration{}
	for range 15 {
		for _, v := range []Policy{p, off} {
			m := &mirror{tarball: good, signature: signature}
			begun := time.Now()
			_, _, err := bring(t, m, &Verifier{Policy: v}, oss("17.3.0"))
			must(t, err)
			took[v.Signatures] = append(took[v.Signatures], time.Since(begun))
			if n := strings.Count(strings.Join(m.requests, " "), ".sig"); n != map[Mode]int{Require: 1, Off: 0}[v.Signatures] {
				t.Errorf("signatures %s: %d requests for one", v.Signatures, n)
			}
		}
	}
	median := func(m Mode) time.Duration {
		slices.Sort(took[m])
		return took[m][len(took[m])/2].Round(10 * time.Microsecond)
	}
	t.Logf("MEASURED: a release with a signature takes %v, without one %v", median(Require), median(Off))
}
