package parts

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// muchLives is from how much memory on, in bytes, the runtime's own measure of
	// garbage is not good enough: it lets as much gather as lives.
	muchLives = 32 << 20
	// garbageMost is how much gathers there, in bytes. Memory that is used again after
	// so little is still in the caches of a processor: an answer takes 3 to 5 % less
	// time than with several times as much.
	garbageMost = 4 << 20
)

// configured is how much garbage gathers otherwise, in percent of what lives: 100, or what
// GOGC says.
var configured = gogc()

const gogcName = "/gc/gogc:percent"

func gogc() uint64 {
	now := []metrics.Sample{{Name: gogcName}}
	metrics.Read(now)
	return now[0].Value.Uint64()
}

// SpareMemory has the garbage of a process with many hosts collected sooner. Nothing in a
// host or in a plan is a pointer, so that a collection costs no more for them: a
// fraction of a millisecond. Where GOGC is off, it stays off.
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
