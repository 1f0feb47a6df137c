package main

import (
	"strings"
	"unsafe"

	"teleport-update/internal/webclient"
)

// hideSecrets returns copies of the process's arguments, and overwrites secrets in URLs in the memory that the kernel shows to ps, and to
// journald, which keeps the command line of programs that write to it. Else a token in a template would go wherever the journal goes.
//
// args must be the strings that the kernel handed over: other strings are not ours to overwrite.
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
