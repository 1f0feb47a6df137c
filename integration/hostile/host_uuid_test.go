//go:build hosts

package hostile

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// hostUUIDCases are about the one file of the agent's whose content leaves the
// host: anything but a UUID is left out of the question.
func hostUUIDCases() []hostile {
	leftOut := func(name string, given func(*world)) hostile {
		c := idle(name, given)
		c.serves = func(w *world) {
			w.find = func(rw http.ResponseWriter, r *http.Request) {
				if query := r.URL.RawQuery; query != "" {
					w.t.Errorf("find is asked %q", query)
				}
				io.WriteString(rw, answerFor("1.0.0"))
			}
		}
		c.says = "left out of the question to find…version 1.0.0 is active and wanted"
		return c
	}
	is := func(name, content string) hostile {
		return leftOut(name, func(w *world) { w.write(w.data("host_uuid"), content, 0o600) })
	}
	cases := []hostile{
		is("is empty", ""),
		is("is noise", "\x00\xff\x1b[2J"),
		is("is a word", "host"),
		is("brings a parameter of its own", uuid+"&group=canary"),
		is("brings a second line", uuid+"\n"+uuid),
		is("brings a header", uuid+"\r\nX-Evil: yes"),
		is("is a path", "../../etc/shadow"),
		is("is a private key", "-----BEGIN PRIVATE KEY-----\nplanted\n"),
		is("is cut", uuid[:35]),
		is("is too long", uuid+"0"),
		is("has a letter that is none", strings.Replace(uuid, "6", "g", 1)),
		is("has a NUL", uuid+"\x00"),
		is("is UTF-16", "\xff\xfe6\x00e\x00"),
		is("is of two megabytes", strings.Repeat("6", 2<<20)),
		leftOut("takes a terabyte of nothing", func(w *world) { w.sparse(w.data("host_uuid"), 1<<40, 0o600) }),
	}
	for _, k := range wrong {
		if k.name == "is a link to nothing" {
			continue // is none yet: the agent has not run
		}
		cases = append(cases, leftOut(k.name, func(w *world) { k.make(w, w.data("host_uuid")) }))
	}
	// Agents have a user of their own, whose file it is: a UUID is the host's, whoever wrote it.
	for _, k := range foreign {
		c := idle(k.name, func(w *world) { k.make(w, w.data("host_uuid")) })
		c.serves = func(w *world) {
			w.find = func(rw http.ResponseWriter, r *http.Request) {
				if query := r.URL.RawQuery; query != "host="+uuid {
					w.t.Errorf("find is asked %q", query)
				}
				io.WriteString(rw, answerFor("1.0.0"))
			}
		}
		cases = append(cases, c)
	}
	return slices.Clip(cases)
}
