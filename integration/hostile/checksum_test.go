//go:build hosts

package hostile

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
)

func checksumCases() []hostile {
	digest := fmt.Sprintf("%x", sha256.Sum256(sound("1.1.0")))
	refused := func(name, content, says string) hostile {
		return hostile{name: name, says: says, serves: func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) {
				if isChecksum(r) {
					io.WriteString(rw, content)
					return
				}
				w.serveFiles(rw, r)
			}
		}}
	}
	taken := func(name, content string) hostile {
		return hostile{name: name, code: done, becomes: "1.1.0", serves: func(w *world) { w.checksum = content }}
	}
	const none, another = "does not begin with a SHA-256 (64 hex digits)", "does not match its checksum"
	return []hostile{
		refused("the file is empty", "", none),
		refused("the file is a web page", "<!DOCTYPE html><title>Sign in</title>", none),
		refused("the file is noise", "\x00\xff\x1b[2J", none),
		refused("the digest is one digit short", digest[:63], none),
		refused("the digest is one digit long", digest+"0", "begins with more than 64 hex digits"),
		refused("the digest is a SHA-512", digest+digest, "begins with more than 64 hex digits"),
		refused("the digest is an MD5", digest[:32]+"  teleport.tar.gz\n", none),
		refused("a digit is none", "g"+digest[1:], none),
		refused("a digit is a letter that looks like one", digest[:63]+"а", none),
		refused("the file begins with a space", " "+digest, none),
		refused("the file begins with a new line", "\n"+digest, none),
		refused("the file begins with the name", "teleport.tar.gz: "+digest, none),
		refused("the file begins with a byte order mark", "\xef\xbb\xbf"+digest, none),
		refused("the file is in the way of BSD", "SHA256 (teleport.tar.gz) = "+digest, none),
		refused("the digest is of another tarball", fmt.Sprintf("%x", sha256.Sum256(sound("1.2.0"))), another),
		refused("the digest is of nothing", fmt.Sprintf("%x", sha256.Sum256(nil)), another),
		refused("the digest is zero", strings.Repeat("0", 64), another),
		refused("the second line has the right digest", strings.Repeat("0", 64)+"  x\n"+digest+"  teleport.tar.gz\n", another),
		refused("the file is a megabyte of noise", strings.Repeat("noise ", 1<<18), none),
		refused("the file is a path", "../../../etc/shadow", none),
		{name: "the file never ends", says: another, serves: func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) {
				if !isChecksum(r) {
					w.serveFiles(rw, r)
					return
				}
				io.WriteString(rw, strings.Repeat("0", 64)+" ")
				for {
					if _, err := io.WriteString(rw, strings.Repeat(" ", 1<<16)); err != nil {
						return
					}
				}
			}
		}},
		{name: "the file is not there", says: "404 Not Found", serves: func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) {
				if isChecksum(r) {
					http.NotFound(rw, r)
					return
				}
				w.serveFiles(rw, r)
			}
		}},
		{name: "the file is there and the tarball is not", says: "404 Not Found", serves: func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) {
				if !isChecksum(r) {
					http.NotFound(rw, r)
					return
				}
				w.serveFiles(rw, r)
			}
		}},
		{name: "the checksum changes with every request", says: another, serves: func(w *world) {
			w.files = func(rw http.ResponseWriter, r *http.Request) {
				if isChecksum(r) {
					fmt.Fprintf(rw, "%064x", w.requests.Load())
					return
				}
				w.serveFiles(rw, r)
			}
		}},
		taken("the digest is in capitals", strings.ToUpper(digest)),
		taken("the digest ends the file", digest),
		taken("noise follows the digest", digest+" \x00\xff\n\x1b[2J"),
		taken("the name is that of another file", digest+" *../../etc/shadow\n"),
	}
}
