//go:build hosts

package hostile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// strict is an agent that refuses to answer where anything of the caller's
// environment or file descriptors came through to it.
var strict = without("teleport", program("teleport/teleport", `#!/bin/sh
for v in LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT BASH_ENV ENV TMPDIR HTTPS_PROXY SSLKEYLOGFILE GODEBUG EVIL; do
	eval "[ -z \"\${$v+x}\" ]" || exit 9
done
[ "$PATH" = /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ] || exit 8
[ "$(pwd)" = / ] || exit 7
exec echo Teleport v1.1.0 git:x
`))

func environmentCases() []hostile {
	updated := func(name string, given func(*world)) hostile {
		return hostile{name: name, code: done, becomes: "1.1.0", given: given, serves: func(w *world) { w.tarball = strict },
			check: func(w *world, r result) {
				notExecuted(w, r)
				for path, mode := range map[string]fs.FileMode{
					w.store("1.1.0"): 0o755, w.store("1.1.0", "bin"): 0o755, w.store("1.1.0", "bin", "teleport"): 0o755,
					w.store("1.1.0", "etc", "systemd", "teleport.service"): 0o644, w.config(): 0o600, w.store("find.json"): 0o600, w.store("update_config.yaml"): 0o644,
					w.store("update.lock"): 0o600, w.store("fetch.lock"): 0o600, filepath.Join(w.units(), "teleport.service"): 0o644,
					w.active("backup"): 0o700, w.active("backup", "sqlite.db"): 0o600,
				} {
					info, err := os.Lstat(path)
					if err != nil || info.Mode().Perm() != mode {
						w.t.Errorf("%s has mode %v (%v); want %v", path, info.Mode(), err, mode)
					}
				}
			}}
	}
	with := func(name string, env ...string) hostile {
		return updated(name, func(w *world) {
			for _, v := range env {
				w.env = append(w.env, strings.ReplaceAll(v, "$WORLD", w.dir))
			}
		})
	}
	shell := func(name, words string) hostile {
		return updated(name, func(w *world) { w.shell = strings.ReplaceAll(words, "$WORLD", w.dir) })
	}
	stdio := func(name, words string) hostile {
		c := shell(name, "")
		c.given = func(w *world) { w.stdio = words }
		c.after = func(w *world) { w.stdio = "" }
		return c
	}
	wrongFlag := func(name, variable, says string) hostile {
		return hostile{name: name, code: usage, says: says, given: func(w *world) { w.env = []string{variable} }, after: func(w *world) { w.env = nil }}
	}
	limited := func(name, words, says string) hostile {
		return hostile{name: name, says: says, given: func(w *world) { w.shell = words }, after: func(w *world) { w.shell = "" }}
	}
	cases := []hostile{
		with("PATH is empty", "PATH="),
		with("PATH leads to another user's programs", "PATH=$WORLD/evil:."),
		with("LD_PRELOAD names a library", "LD_PRELOAD=$WORLD/evil.so"),
		with("LD_LIBRARY_PATH names a folder", "LD_LIBRARY_PATH=$WORLD"),
		with("LD_AUDIT names a library", "LD_AUDIT=$WORLD/evil.so"),
		with("shells are told to read a file first", "BASH_ENV=$WORLD/evil", "ENV=$WORLD/evil"),
		with("TMPDIR does not exist", "TMPDIR=$WORLD/nowhere"),
		with("TMPDIR is a file", "TMPDIR=$WORLD/ca.pem"),
		with("HOME is empty", "HOME="),
		with("HOME does not exist", "HOME=$WORLD/nowhere", "XDG_CONFIG_HOME=$WORLD/nowhere"),
		with("a file for the keys of TLS is named", "SSLKEYLOGFILE=$WORLD/outside/keys"),
		with("GODEBUG asks for what is insecure", "GODEBUG=rsa1024min=0,x509negativeserial=1,tarinsecurepath=1,netdns=go"),
		with("GODEBUG is noise", "GODEBUG=,,,=\x01=,"),
		with("the garbage collector is off", "GOGC=off"),
		with("memory is said to be scarce", "GOMEMLIMIT=48MiB"),
		with("GOTRACEBACK asks for a core", "GOTRACEBACK=crash"),
		with("one processor is to be used", "GOMAXPROCS=1"),
		with("TZ names a device without end", "TZ=/dev/zero"),
		with("TZ names a secret file", "TZ=$WORLD/outside/secret"),
		with("the language is none", "LC_ALL=../../x", "LANG=\xff"),
		with("the journal's stream is a lie", "JOURNAL_STREAM=1:1", "INVOCATION_ID=x"),
		with("systemd's socket for notices is a lie", "NOTIFY_SOCKET=$WORLD/outside/secret"),
		with("the bus is a lie", "DBUS_SYSTEM_BUS_ADDRESS=unix:path=$WORLD/outside/secret"),
		with("an HTTP proxy is named for what is at hand", "HTTPS_PROXY=http://eve:planted-proxy@127.0.0.1:1", "ALL_PROXY=socks5://127.0.0.1:1"),
		with("the environment is of a hundred kilobytes", "EVIL="+strings.Repeat("x", 100<<10)),
		with("the environment has a name twice", "EVIL=1", "EVIL=2", "=", "=x"),
		wrongFlag("a variable sets a log format that is none", "TELEPORT_UPDATE_LOG_FORMAT=xml", `"xml" is neither text nor json`),
		wrongFlag("a variable sets a switch to neither", "TELEPORT_UPDATE_NOW=perhaps", ""),
		shell("the umask lets nobody read anything", "umask 0777"),
		shell("the umask lets everybody write everything", "umask 0"),
		shell("the working folder is gone", "mkdir $WORLD/gone; cd $WORLD/gone; rmdir $WORLD/gone"),
		shell("the working folder is another user's", "mkdir $WORLD/outside/theirs; chown 1234 $WORLD/outside/theirs; cd $WORLD/outside/theirs; ln -s /etc/shadow updates.yaml"),
		shell("signals are ignored", "trap '' HUP INT TERM PIPE CHLD"),
		shell("a hundred files are open", "exec 3</dev/null; i=4; while [ $i -lt 10 ]; do eval \"exec $i</dev/null\"; i=$((i+1)); done"),
		shell("the stack is small", "ulimit -s 128"),
		shell("no core may be written", "ulimit -c 0"),
		stdio("input is closed", "<&-"),
		stdio("output is closed", ">&-"),
		stdio("errors are closed", "2>&-"),
		stdio("input, output and errors are closed", "<&- >&- 2>&-"),
		stdio("output and errors are full", ">/dev/full 2>/dev/full"),
		stdio("input is a device without end", "</dev/zero"),
		stdio("errors go into a pipe that nobody reads", "2>/dev/null"),
		limited("ten files may be open", "ulimit -n 10", ""),
		limited("no file may be written", "ulimit -f 0", ""),
		limited("files may be of half a kilobyte", "ulimit -f 1", ""),
	}
	for i := range cases {
		given := cases[i].given
		cases[i].given = func(w *world) {
			w.must(os.Mkdir(filepath.Join(w.dir, "evil"), 0o755))
			for _, name := range []string{"sh", "uname", "tar", "gzip", "systemctl", "sync", "getconf", "id"} {
				w.write(filepath.Join(w.dir, "evil", name), "#!/bin/sh\ntouch "+w.outside("executed")+"\n", 0o755)
			}
			given(w)
		}
		cases[i].may = append(cases[i].may, "outside/theirs")
		if cases[i].code == failed { // what was fetched is there for the next run
			cases[i].may = append(cases[i].may, "data/versions/1.1.0", "data/versions/1.0.0/backup")
		}
	}
	return append(cases, hostile{name: "the keys of TLS are not written down", code: done, becomes: "1.1.0",
		given: func(w *world) { w.env = []string{"SSLKEYLOGFILE=" + w.outside("keys")} },
		check: func(w *world, _ result) {
			if _, err := os.Lstat(w.outside("keys")); !errors.Is(err, fs.ErrNotExist) {
				w.t.Error("they are")
			}
		}})
}
