package parts

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// muchLives is the live memory, in bytes, from which on the runtime's default is
	// not good enough: it lets as much garbage gather as there is live memory.
	muchLives = 32 << 20
	// garbageMost is how many bytes of garbage gather then. Memory that is reused so
	// soon is still in a processor's caches: an answer takes 3 to 5 % less time than
	// with several times as much.
	garbageMost = 4 << 20
)

// configured is how much garbage gathers otherwise, in percent of live memory: 100, or
// GOGC.
var configured = gogc()

const gogcName = "/gc/gogc:percent"

func gogc() uint64 {
	now := []metrics.Sample{{Name: gogcName}}
	metrics.Read(now)
	return now[0].Value.Uint64()
}

// SpareMemory has the garbage of a process with many hosts collected sooner. Hosts and
// plans hold no pointers, so a collection costs no more with them: a fraction of a
// millisecond. If GOGC is off, it stays off.
func SpareMemory() {
	now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: gogcName}}
	metrics.Read(now)
	percent := configured
	if lives := now[0].Value.Uint64(); lives > muchLives && configured <= math.MaxInt32 {
		percent = min(configured, max(1, garbageMost*100/lives))
	}
	if percent != now[1].Value.Uint64() {
		debug.SetGCPercent(int(percent))
	}
}
