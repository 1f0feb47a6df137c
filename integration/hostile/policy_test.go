//go:build hosts

package hostile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

// Whoever owns the mirror or the find server must not own the host: where its owner has a
// policy and the vendor's keys, nothing but what they allow is put on it.

// signer is a key of the vendor's, or of somebody else.
type signer struct {
	private *ecdsa.PrivateKey
	public  string // as a file of keys.d
}

func newSigner() signer {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		panic(err)
	}
	return signer{k, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
}

func (s signer) sign(tarball []byte) string {
	sum := sha256.Sum256(tarball)
	der, err := ecdsa.SignASN1(rand.Reader, s.private, sum[:])
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(der) + "\n"
}

// owner is where the host's owner has a policy.
func (w *world) owner(names ...string) string {
	return filepath.Join(append([]string{w.dir, "policy"}, names...)...)
}

// rules makes the policy, before the updater is run.
func (w *world) rules(files map[string]string) {
	w.env = append(w.env, "TELEPORT_UPDATE_POLICY_DIR="+w.owner())
	for name, text := range files {
		w.write(w.owner(name), text, 0o644)
	}
}

// signs has the mirror serve what sig writes as the signature of its tarball.
func (w *world) signs(sig func(http.ResponseWriter, *http.Request)) {
	w.files = func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".sig") {
			sig(rw, r)
			return
		}
		w.serveFiles(rw, r)
	}
}

func fixed(text string) func(http.ResponseWriter, *http.Request) {
	return func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, text) }
}

func policyCases() []hostile {
	vendor, backup, stranger := newSigner(), newSigner(), newSigner()
	keys := map[string]string{"keys.d/primary.pem": vendor.public, "keys.d/backup.pem": backup.public}
	good := sound("1.1.0")
	// refused is a mirror that serves a tarball with a signature, to a host with the keys.
	refused := func(name string, tarball []byte, sig func(http.ResponseWriter, *http.Request), says string) hostile {
		return hostile{name: name, says: says,
			serves: func(w *world) {
				w.tarball = tarball
				w.signs(sig)
			},
			given: func(w *world) { w.rules(keys) },
		}
	}
	// floor is a find server that names 1.1.0, to a host whose owner says something else.
	floor := func(name string, rules map[string]string, says string) hostile {
		return hostile{name: name, says: says, given: func(w *world) { w.rules(rules) },
			check: func(w *world, r result) {
				if n := w.requests.Load(); n > 1 {
					w.t.Errorf("%d requests; find alone is to be asked", n)
				}
			}}
	}
	taken := func(name string, rules map[string]string, sig func(http.ResponseWriter, *http.Request)) hostile {
		return hostile{name: name, code: done, becomes: "1.1.0",
			serves: func(w *world) { w.signs(sig) },
			given:  func(w *world) { w.rules(rules) },
		}
	}
	// vanishes takes a file of the policy away while the signature is read.
	vanishes := func(name, file, says string) hostile {
		return hostile{name: name, says: says, may: []string{"data/versions/1.1.0*", "policy*"},
			serves: func(w *world) {
				w.signs(func(rw http.ResponseWriter, r *http.Request) {
					os.RemoveAll(w.owner(file))
					io.WriteString(rw, vendor.sign(good))
				})
			},
			given: func(w *world) {
				w.rules(keys)
				w.rules(map[string]string{"policy.yaml": "minimum: 1.0.0\n"})
			},
		}
	}
	// sized is a well signed tarball whose mirror says that it is so much longer, or that a
	// program in it is: by numbers that 32 bits hold as none, or as negative ones.
	sized := func(extra int64) []hostile {
		name := fmt.Sprintf("%d GiB", extra>>30)
		long := append(release("1.1.0"), entry{name: "teleport/tbot", mode: 0o755, rawSize: fmt.Sprintf("%011o\x00", extra+1), noData: true})
		return []hostile{
			{name: "a tarball, well signed, that its mirror says to be longer by " + name, says: "more than the limit of",
				serves: func(w *world) {
					w.files = func(rw http.ResponseWriter, r *http.Request) {
						switch {
						case strings.HasSuffix(r.URL.Path, ".sig"):
							io.WriteString(rw, vendor.sign(good))
						case isChecksum(r):
							w.serveFiles(rw, r)
						default:
							rw.Header().Set("Content-Length", fmt.Sprint(extra+int64(len(good))))
							rw.Write(good)
						}
					}
				},
				given: func(w *world) { w.rules(keys) }},
			refused("a tarball, well signed, with a program of "+name, gz(archive(long...)), fixed(vendor.sign(gz(archive(long...)))), "more than 2147483648"),
		}
	}
	// alternates is a find server that names an allowed version and another, in turns.
	alternates := func(name, other, policy, says string) hostile {
		var named atomic.Value
		named.Store("1.1.0")
		return hostile{name: "a find server names an allowed version and " + name + " in turns", code: done, becomes: "1.1.0",
			serves: func(w *world) {
				w.signs(fixed(vendor.sign(good)))
				w.find = func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, answerFor(named.Load().(string))) }
			},
			given: func(w *world) {
				w.rules(keys)
				w.rules(map[string]string{"policy.yaml": policy})
			},
			check: func(w *world, _ result) {
				for range 3 {
					named.Store(other)
					if r := w.run("update"); r.code != failed.number() || !strings.Contains(r.stderr, says) {
						w.t.Errorf("the other version: exit code %d; want %q in\n%s", r.code, says, r.stderr)
					}
					if to, _ := os.Readlink(filepath.Join(w.links(), "teleport")); to != w.store("1.1.0", "bin", "teleport") {
						w.t.Errorf("teleport leads to %s", to)
					}
					named.Store("1.1.0")
					if r := w.run("update"); r.code != done.number() {
						w.t.Errorf("the allowed one again: exit code %d\n%s", r.code, r.stderr)
					}
					w.runs("1.1.0")
				}
			}}
	}
	missing := func(rw http.ResponseWriter, r *http.Request) { http.NotFound(rw, r) }
	cases := slices.Concat(sized(2<<30), sized(4<<30), slowSignatureCases(), keptCases(), editionCases(), withdrawnKeyCases(), idleCases())
	return append(cases, []hostile{
		alternates("one below the minimum", "1.0.9", "minimum: 1.1.0\n", "below 1.1.0"),
		alternates("one that was withdrawn", "1.2.0", "withdrawn: [1.2.0]\n", "withdrew"),
		alternates("one whose tarball is another's", "1.2.0", "signatures: require\n", "its file VERSION says"),
		taken("a tarball signed by the first key", keys, fixed(vendor.sign(good))),
		taken("a tarball signed by the second key", keys, fixed(backup.sign(good))),
		taken("an unsigned tarball where signatures are only warned of", map[string]string{"keys.d/a.pem": vendor.public, "policy.yaml": "signatures: warn\n"}, missing),
		taken("an unsigned tarball that the owner lists", map[string]string{"keys.d/a.pem": vendor.public,
			"policy.yaml": "minimum: 1.2.0\nreleases: {1.1.0: " + digestOf(good) + "}\n"}, missing),
		refused("a tarball without a signature", good, missing, "there is no signature…may not carry signatures…did not sign"),
		refused("another program under a good name", sound("1.1.0-evil"), fixed(vendor.sign(good)), "none of the keys made this signature…newer than…somebody replaced"),
		refused("a tarball signed by somebody else", good, fixed(stranger.sign(good)), "none of the keys made this signature"),
		refused("an older tarball, well signed, under this name", sound("1.0.9"), fixed(vendor.sign(sound("1.0.9"))), "its file VERSION says \"1.0.9\"…wrong name…an older or another release"),
		refused("a tarball of another edition, well signed, under this name", enterprise("1.1.0"), fixed(vendor.sign(enterprise("1.1.0"))), "its top folder is teleport-ent"),
		refused("an empty signature", good, fixed(""), "it is empty"),
		refused("a signature that is a page", good, fixed("<!DOCTYPE html><title>Sign in</title>"), "is not base64"),
		refused("an oversized signature", good, fixed(vendor.sign(good)+strings.Repeat(" ", 4<<10)), "more than 512 bytes"),
		refused("an endless signature", good, func(rw http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(rw, strings.Repeat("A", 1<<16)); err != nil {
					return
				}
			}
		}, "more than 512 bytes"),
		floor("a version below the minimum", map[string]string{"policy.yaml": "minimum: 1.2.0\n"}, "below 1.2.0…on purpose…known to be vulnerable"),
		floor("a version that was withdrawn", map[string]string{"policy.yaml": "withdrawn: [1.1.0]\n"}, "withdrew the version"),
		floor("a withdrawn version with other build metadata", map[string]string{"policy.yaml": "withdrawn: [1.1.0+a]\n"}, "withdrew the version"),
		floor("a policy with a word that nobody knows", map[string]string{"policy.yaml": "minimun: 1.0.0\n"}, "cannot be relied on…minimun"),
		floor("a policy that is empty", map[string]string{"policy.yaml": ""}, "cannot be relied on…it is empty"),
		floor("signatures are required and there is no key", map[string]string{"policy.yaml": "signatures: require\n"}, "there is no key"),
		{name: "another tarball than the one that the owner listed", says: "policy.yaml lists others…somebody replaced",
			given: func(w *world) {
				w.rules(map[string]string{"policy.yaml": "releases: {1.1.0: " + strings.Repeat("a", 64) + "}\n"})
			}},
		{name: "a policy that others may write", says: "cannot be relied on", given: func(w *world) {
			w.rules(map[string]string{"policy.yaml": "minimum: 1.0.0\n"})
			w.chmod(w.owner("policy.yaml"), 0o666)
		}},
		{name: "a key that others may write", says: "cannot be relied on", given: func(w *world) {
			w.rules(keys)
			w.chmod(w.owner("keys.d", "primary.pem"), 0o666)
		}},
		{name: "a policy that is gone", says: "it is gone…policy --forget", given: func(w *world) {
			w.rules(nil)
			w.replace(w.config(), "status:\n", "status:\n  policy_seen: {file: true}\n")
		}},
		vanishes("a policy that goes in the middle of the update", "policy.yaml", "it is gone"),
		vanishes("keys that go in the middle of the update", "keys.d", "they are gone"),
	}...)
}

// enterprise is a sound release with the top folder of the enterprise editions.
func enterprise(v string) []byte {
	entries := release(v)
	for n := range entries {
		entries[n].name = strings.Replace(entries[n].name, "teleport/", "teleport-ent/", 1)
	}
	return gz(archive(entries...))
}
