package trace

import (
	"reflect"
	"runtime"
	"sync"
)

// The Go runtime has its own write: to wake a thread that polls, and to say why it gives up. On a
// thread that has the filter and no tracer both would fail, and the process would end without a word.
const (
	runtimeWriteName = "runtime.write1"
	runtimeWriteSize = 32 // bytes of code at most
)

// runtimeWrite returns the address of the runtime's own write, 0 if the runtime has none. The linker
// refuses to name it, so it is looked up among the functions before and after another one of the
// runtime: a package's functions lie together, each at a multiple of 16 bytes.
var runtimeWrite = sync.OnceValue(func() uintptr {
	const step = 16
	middle := reflect.ValueOf(runtime.GC).Pointer() / step * step
	for _, direction := range []uintptr{step, ^uintptr(step - 1)} {
		for pc := middle; ; pc += direction {
			f := runtime.FuncForPC(pc)
			if f == nil {
				break // the end of the program's code
			}
			if f.Name() == runtimeWriteName {
				return f.Entry()
			}
		}
	}
	return 0
})
