package server

import (
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

// spare has the garbage of a process with many hosts collected sooner. Nothing in a
// host or in a plan is a pointer, so that a collection costs no more for them: a
// fraction of a millisecond.
func spare() {
	now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(now)
	percent := uint64(100)
	if lives := now[0].Value.Uint64(); lives > muchLives {
		percent = max(1, garbageMost*100/lives)
	}
	if percent != now[1].Value.Uint64() {
		debug.SetGCPercent(int(percent))
	}
}
