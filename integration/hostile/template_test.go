//go:build hosts

package hostile

import (
	"io"
	"net/http"
	"strings"
)

func templateCases() []hostile {
	// A wrong template on the command line ends at once, with 2.
	given := func(name, template, says string) hostile {
		return hostile{name: name, code: usage, says: says, bare: true, run: []string{"enable", "--proxy", "$PROXY", "--ca-file", "$CA", "--template", template}}
	}
	// In updates.yaml it is found by the next run.
	written := func(name, template, says string) hostile {
		return hostile{name: name + ", in updates.yaml", says: says, given: func(w *world) {
			w.templates = []string{template}
			w.settings()
		}}
	}
	const (
		noFile   = "the URL names no file"
		loopback = "plain http is for loopback addresses only, use https"
		aFile    = "a file URL is file:// and an absolute path"
	)
	both := []struct{ name, template, says string }{
		{"plain http", "http://planted:planted@cdn.example/{{.Version}}?t=planted", "plain http is for loopback addresses only"},
		{"plain http to an address that looks like loopback", "http://127.0.0.1.example/{{.Version}}", loopback},
		{"plain http to loopback before the user info ends", "http://127.0.0.1@cdn.example/{{.Version}}", loopback},
		{"plain http to localhost with a dot", "http://localhost./{{.Version}}", loopback},
		{"plain http to a decimal address", "http://2130706433/{{.Version}}", loopback},
		{"another scheme", "ftp://cdn.example/{{.Version}}", "the scheme must be https"},
		{"a script", "javascript:alert(1)", "the scheme must be https"},
		{"no scheme", "cdn.example/{{.Version}}", "the scheme must be https"},
		{"no host", "https:///{{.Version}}", "there is no host name"},
		{"a host that is user info", "https://ann:planted-user@/{{.Version}}", "there is no host name"},
		{"no file", "https://cdn.example/", noFile},
		{"no file but a query", "https://cdn.example/?token=planted-token", noFile},
		{"a fragment", "https://cdn.example/x#planted", "it must not contain a fragment"},
		{"a port that is none", "https://ann:planted-user@cdn.example:99x/{{.Version}}", "URL template"},
		{"a host with an escape", "https://cdn%2fexample/{{.Version}}", "URL template"},
		{"a control character", "https://cdn.example/\x01{{.Version}}?token=planted-token", "URL template"},
		{"an unknown field", "https://ann:planted-user@cdn.example/{{.Release}}?token=planted-token", ".Release is not known"},
		{"a method of nothing", "https://cdn.example/{{.Version.Delete}}", "URL template"},
		{"a field of a function", "https://cdn.example/{{call .Version}}", "URL template"},
		{"a function that is none", "https://cdn.example/{{exec \"id\"}}", "URL template"},
		{"a function of the environment", "https://cdn.example/{{env \"HOME\"}}", "URL template"},
		{"a loop", "https://cdn.example/{{range 1000000000}}x{{end}}", "only values, functions, if and with may be used in it"},
		{"a template in the template", `{{define "x"}}{{template "x"}}{{end}}https://cdn.example/{{template "x"}}`, "only values, functions, if and with may be used in it"},
		{"a break without a loop", "https://cdn.example/{{break}}", "URL template"},
		{"no end", "https://cdn.example/{{if .FIPS}}fips", "URL template"},
		{"an action that does not end", "https://ann:planted-user@cdn.example/{{.Version?token=planted-token", "URL template"},
		{"a URL of five kilobytes", "https://cdn.example/{{.Version}}" + strings.Repeat("x", 5<<10), "the URL is longer than 4096 bytes"},
		{"a URL that grows", `https://cdn.example/{{printf "%9999s" .Version}}`, "the URL is longer than 4096 bytes"},
		{"a URL that grows beyond memory", `https://cdn.example/{{printf "%999999s%999999s%999999s" .Version .OS .Arch}}`, "the URL is longer than 4096 bytes"},
		{"nothing", " ", "it is empty"},
		{"a definition alone", `{{define "x"}}y{{end}}`, ""},
		{"a file on another host", "file://nas/{{.Version}}.tar.gz", aFile},
		{"a file with a relative path", "file:{{.Version}}.tar.gz", aFile},
		{"a file with a password", "file://ann:planted-user@localhost/{{.Version}}.tar.gz", aFile},
		{"a file with a query", "file:///srv/{{.Version}}.tar.gz?token=planted-token", aFile},
	}
	var cases []hostile
	for i, c := range both {
		cases = append(cases, given(c.name, c.template, c.says))
		if i%3 == 0 {
			cases = append(cases, written(c.name, c.template, c.says))
		}
	}
	local := func(name, says string, given func(w *world)) hostile {
		return hostile{name: name, says: says, given: func(w *world) {
			w.templates = []string{"file://" + w.outside("release-{{.Version}}.tar.gz")}
			w.settings()
			given(w)
		}}
	}
	redirect := func(name, to, says string) hostile {
		return hostile{name: name, says: says, serves: func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) {
				if isChecksum(r) {
					w.serveFiles(rw, r)
					return
				}
				rw.Header().Set("Location", to)
				rw.WriteHeader(http.StatusFound)
			}
		}}
	}
	release := func(w *world, suffix string) string { return w.outside("release-1.1.0.tar.gz" + suffix) }
	cases = append(cases,
		local("a file that is not there", "release not found", func(*world) {}),
		local("a file that is a folder", "is not a regular file", func(w *world) { w.folder(release(w, ".sha256")) }),
		local("a file that is a pipe", "is not a regular file", func(w *world) { w.fifo(release(w, ".sha256")) }),
		local("a file that is a device", "is not a regular file", func(w *world) { w.zero(release(w, ".sha256")) }),
		local("a tarball that is a pipe", "is not a regular file", func(w *world) {
			w.write(release(w, ".sha256"), strings.Repeat("0", 64), 0o644)
			w.fifo(release(w, ""))
		}),
		local("a tarball that is a device", "is not a regular file", func(w *world) {
			w.write(release(w, ".sha256"), strings.Repeat("0", 64), 0o644)
			w.zero(release(w, ""))
		}),
		local("a tarball of three gigabytes", "more than the limit of", func(w *world) {
			w.write(release(w, ".sha256"), strings.Repeat("0", 64), 0o644)
			w.sparse(release(w, ""), 3<<30, 0o644)
		}),
		redirect("the mirror redirects down from https", "http://127.0.0.1:1/x", "refused a redirect from https to http://127.0.0.1:1/x"),
		redirect("the mirror redirects to plain http elsewhere", "http://cdn.example/x?sig=planted-signature", "refused a redirect from https to http://cdn.example/x?sig=xxxxx"),
		redirect("the mirror redirects to a file", "file:///etc/shadow", "refused a redirect from https to file:///etc/shadow"),
		redirect("the mirror redirects with a password that is wrong", "https://ann:planted-redirect@127.0.0.1:1/x?sig=planted-signature", "connection refused"),
		hostile{name: "the mirror redirects for ever", says: "gave up after 10 redirects", serves: func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, r.URL.Path, http.StatusFound) }
		}},
		hostile{name: "the mirror is told of no other server", code: done, becomes: "1.1.0", serves: func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("n") == "" {
					http.Redirect(rw, r, r.URL.Path+"?n=1", http.StatusFound)
					return
				}
				if referer := r.Header.Get("Referer"); referer != "" {
					w.t.Errorf("the next server is told %s", referer)
				}
				w.serveFiles(rw, r)
			}
		}},
		hostile{name: "a path in the template leads up", says: "404 Not Found", given: func(w *world) {
			w.templates = []string{w.template("/a/../../../../etc/{{.Version}}")}
			w.settings()
		}, serves: func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) { http.NotFound(rw, r) }
		}},
		hostile{name: "a secret is in every part of the template", says: "the server answered \"418", given: func(w *world) {
			w.templates = []string{"https://planted-name:planted%20pass%40word@" + w.address() + "/x-{{.Version}}?planted-flag&a=planted;b=planted&X-Amz-Signature=planted%2Fx"}
			w.settings()
		}, serves: func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) {
				rw.WriteHeader(http.StatusTeapot)
				io.WriteString(rw, "planted in the body")
			}
		}},
	)
	return cases
}
