//go:build hosts

package hostile

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// A mirror and a find server that know the rules of the host's owner, and wait for their moment:
// with a signature that does not end, an old version that the host still has, a key that is
// withdrawn while they are asked.

// dripped sends a text a byte at a time, at a pace.
func dripped(text string, pace time.Duration) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", fmt.Sprint(len(text)))
		for n := range len(text) {
			if _, err := io.WriteString(rw, text[n:n+1]); err != nil {
				return
			}
			http.NewResponseController(rw).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(pace):
			}
		}
	}
}

// slowSignatureCases are of a mirror that sends a signature a byte at a time. The updater's limit
// is 30 seconds, so that they wait as cases of stallCases do.
func slowSignatureCases() []hostile {
	vendor := newSigner()
	text := vendor.sign(sound("1.1.0"))
	given := func(w *world) { w.rules(map[string]string{"keys.d/a.pem": vendor.public}) }
	// once is a signature that comes at a byte a second, and something else the next time.
	once := func(w *world, then http.HandlerFunc) {
		var n atomic.Int64
		w.signs(func(rw http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 1 {
				dripped(text, time.Second)(rw, r)
				return
			}
			then(rw, r)
		})
	}
	const slow = "the server sends" // it too slowly; or too little, to a slow machine
	return []hostile{
		{name: "a signature comes a byte at a time, within seconds", waits: true, code: done, becomes: "1.1.0", given: given,
			serves: func(w *world) { w.signs(dripped(text, 20*time.Millisecond)) }},
		{name: "a signature comes a byte a second, and then at once", waits: true, code: done, becomes: "1.1.0", says: slow, given: given,
			serves: func(w *world) { once(w, fixed(text)) }},
		{name: "a signature comes a byte a second, and then is not there", waits: true, says: "there is no signature", given: given,
			serves: func(w *world) { once(w, notFound) }},
		{name: "a signature comes a byte a second, each time", waits: true, long: true, patience: 6 * time.Minute,
			says: "the signature cannot be read…" + slow, given: given, serves: func(w *world) { w.signs(dripped(text, time.Second)) }},
	}
}

// keptCases are of a find server that knows which old versions a host still has, well signed and
// with the database that belongs to them.
func keptCases() []hostile {
	vendor := newSigner()
	// climbed has the host go to 1.1.0 and 1.2.0, and keep the first.
	climbed := func(w *world, minimum string) {
		w.answer, w.tarball = answerFor("1.2.0"), sound("1.2.0")
		w.signs(fixed(vendor.sign(w.tarball)))
		if r := w.run("update"); r.code != done.number() {
			w.t.Fatalf("the host does not get to 1.2.0: %s", r.stderr)
		}
		w.write(w.owner("policy.yaml"), minimum, 0o644)
		w.answer, w.files = answerFor("1.1.0"), notFound
		w.requests.Store(0)
	}
	old := func(name, minimum string, then func(w *world, r result)) hostile {
		return hostile{name: name, code: done, becomes: "1.1.0",
			serves: func(w *world) { w.signs(fixed(vendor.sign(w.tarball))) },
			given:  func(w *world) { w.rules(map[string]string{"keys.d/a.pem": vendor.public}) },
			check: func(w *world, _ result) {
				climbed(w, minimum)
				if _, err := os.Stat(w.store("1.1.0", "signature")); err != nil {
					w.t.Errorf("the signature of the old version is not kept: %v", err)
				}
				then(w, w.run("update"))
				if n := w.requests.Load(); n != 1 {
					w.t.Errorf("%d requests; find alone is to be asked", n)
				}
			}}
	}
	refused := func(says string) func(*world, result) {
		return func(w *world, r result) {
			// Not runs: verify finds fault with the version that is wanted.
			if to, _ := os.Readlink(filepath.Join(w.links(), "teleport")); to != w.store("1.2.0", "bin", "teleport") {
				w.t.Errorf("teleport leads to %s", to)
			}
			for _, word := range []string{says, "known to be", "in policy.yaml"} {
				if r.code != failed.number() || !strings.Contains(r.stderr, word) {
					w.t.Errorf("exit code %d; want %q in\n%s", r.code, word, r.stderr)
				}
			}
		}
	}
	return []hostile{
		old("an old signed version that the host has kept is below the minimum", "minimum: 1.2.0\n", refused("it is below 1.2.0")),
		old("an old signed version that the host has kept was withdrawn", "withdrawn: [1.1.0]\n", refused("withdrew the version")),
		// Without this one, the two might be refused for what they lack.
		old("an old signed version that the host has kept is allowed", "minimum: 1.1.0\n", func(w *world, r result) {
			if r.code != done.number() {
				w.t.Errorf("exit code %d\n%s", r.code, r.stderr)
			}
			w.runs("1.1.0")
		}),
	}
}

// editionCases are of tarballs that are well signed and labelled, whose program says that it is of
// another edition.
func editionCases() []hostile {
	vendor := newSigner()
	program := func(edition, build string) []byte {
		entries := release("1.1.0")
		for n := range entries {
			if entries[n].name == "teleport/teleport" {
				entries[n].data = strings.Replace(script("1.1.0"), "Teleport v1.1.0", "Teleport "+edition+"v1.1.0", 1)
				entries[n].data = strings.Replace(entries[n].data, "go1.24", build, 1)
			}
		}
		return gz(archive(entries...))
	}
	of := func(name, mode string, tarball []byte, says string) hostile {
		return hostile{name: name,
			says: "its program says that it is of edition " + says + ", and the cluster wants oss…somebody offers another edition",
			serves: func(w *world) {
				w.tarball = tarball
				w.signs(fixed(vendor.sign(tarball)))
			},
			given: func(w *world) {
				w.rules(map[string]string{"keys.d/a.pem": vendor.public, "policy.yaml": "signatures: " + mode + "\n"})
			}}
	}
	enterprise, fips := program("Enterprise ", "go1.24"), program("Enterprise ", "go1.24 X:boringcrypto")
	return []hostile{
		of("the program of a signed tarball is of the enterprise edition", "require", enterprise, "enterprise"),
		of("the program of a signed tarball is of the FIPS edition", "require", fips, "enterprise-fips"),
		of("the program of a signed tarball is of another edition, and signatures are only warned of", "warn", enterprise, "enterprise"),
	}
}

// withdrawnKeyCases are of a key that is taken away while a release is fetched: what was found
// good with it is judged again before the host changes.
func withdrawnKeyCases() []hostile {
	first, second := newSigner(), newSigner()
	good := sound("1.1.0")
	// goes takes one key of two away while the signature of the first is sent, or the tarball.
	goes := func(moment, file string) func(w *world) {
		return func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) {
				kind := map[string]string{".sig": "signature", ".sha256": "checksum"}[filepath.Ext(r.URL.Path)]
				if kind == "" {
					kind = "tarball"
				}
				if kind == moment {
					os.Remove(w.owner("keys.d", file))
				}
				if kind == "signature" {
					io.WriteString(rw, first.sign(good))
					return
				}
				w.serveFiles(rw, r)
			}
		}
	}
	given := func(w *world) {
		w.rules(map[string]string{"keys.d/first.pem": first.public, "keys.d/second.pem": second.public})
	}
	var cases []hostile
	for _, moment := range []string{"checksum", "signature", "tarball"} {
		cases = append(cases, hostile{name: "the key that signed, one of two, goes while the " + moment + " is sent", given: given,
			serves: goes(moment, "first.pem"),
			says:   "the signature that came with it is not by a key that this host trusts now…fetches it again",
			may:    []string{"data/versions/1.1.0*", "policy*"},
			check: func(w *world, _ result) {
				w.runs("1.0.0")
				// The other key signs from then on.
				w.signs(fixed(second.sign(good)))
				if r := w.run("update", "--now"); r.code != done.number() {
					w.t.Errorf("signed by the key that is left: exit code %d\n%s", r.code, r.stderr)
				}
				w.runs("1.1.0")
				if got := w.read(w.store("1.1.0", "signature")); got == "" {
					w.t.Error("the version has no signature")
				}
			}})
		cases = append(cases, hostile{name: "the key that did not sign, one of two, goes while the " + moment + " is sent", given: given,
			serves: goes(moment, "second.pem"), code: done, becomes: "1.1.0", may: []string{"policy*"}})
	}
	return cases
}

// idleCases are of runs with nothing to do: a policy and keys make no request more, and have
// nothing fetched again.
func idleCases() []hostile {
	vendor := newSigner()
	good := sound("1.1.0")
	both := map[string]string{"keys.d/a.pem": vendor.public, "policy.yaml": "minimum: 1.0.0\nsignatures: require\n"}
	askedOnce := func(w *world, _ result) {
		for range 2 {
			w.requests.Store(0)
			if r := w.run("update"); r.code != done.number() {
				w.t.Errorf("a run with nothing to do: exit code %d\n%s", r.code, r.stderr)
			}
			if n := w.requests.Load(); n != 1 {
				w.t.Errorf("a run with nothing to do makes %d requests; want that of find alone", n)
			}
		}
	}
	var cases []hostile
	for name, rules := range map[string]map[string]string{"no policy": nil, "a policy and keys": both} {
		given := func(w *world) { w.rules(rules) }
		cases = append(cases,
			hostile{name: "nothing to do, with " + name + ", on a version from before them", code: done, becomes: "1.0.0",
				given: given, check: askedOnce, serves: func(w *world) { w.answer = answerFor("1.0.0") }},
			hostile{name: "nothing to do, with " + name + ", on a signed version", code: done, becomes: "1.1.0",
				given: given, check: askedOnce, serves: func(w *world) { w.signs(fixed(vendor.sign(good))) }})
	}
	return cases
}
