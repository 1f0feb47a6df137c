package main

import (
	"strings"
	"unsafe"

	"teleport-update/internal/webclient"
)

// hideSecrets returns copies of the process's arguments, and overwrites what
// must not be told of URLs in the memory that the kernel shows to ps, and to
// journald, which keeps the command line of whoever writes to it. A token in a
// template would otherwise go wherever the journal goes.
//
// args must be those that the kernel handed over: any other string is not ours
// to write to.
func hideSecrets(args []string) []string {
	copies := make([]string, len(args))
	for i, arg := range args {
		copies[i] = strings.Clone(arg)
		if !strings.Contains(arg, "://") {
			continue
		}
		shown := webclient.Redact(copies[i])
		if shown == arg {
			continue
		}
		shown += strings.Repeat(" ", max(len(arg)-len(shown), 0))
		copy(unsafe.Slice(unsafe.StringData(arg), len(arg)), shown)
	}
	return copies
}
