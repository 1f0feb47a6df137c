package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheFirstLineSaysHowLongItTakes(t *testing.T) {
	t.Chdir("../..") // where make runs it
	all := []*part{newPart(module + "/a"), newPart(module + "/b")}
	if text := expected([]string{"packages", "hosts"}, "", all); !strings.HasPrefix(text, "2 parts; `make test` took ") || !strings.Contains(text, " min on 2") {
		t.Errorf("of all it says %q", text)
	}
	if text := expected([]string{"packages", "hosts"}, "a", all); text != "2 parts" {
		t.Errorf("of one part it says %q", text)
	}
}

func TestCompilingIsNotSilent(t *testing.T) {
	var out bytes.Buffer
	show := &screen{out: &out}
	show.still([]*part{newPart(module + "/a")})
	if !strings.HasPrefix(out.String(), "compiling tests … ") {
		t.Errorf("it shows %q", out.String())
	}
}
