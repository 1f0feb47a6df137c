package main

import (
	"testing"

	"teleport-update/find"
	releases "teleport-update/internal/version"
)

// Teleport's updaters read the answers, too, and so do ours of before: the rest of an answer is as it was.
func TestServeOffersATemplateToHosts(t *testing.T) {
	const template = "https://find.example.com/releases/teleport{{ if .Enterprise }}-ent{{ end }}-v{{ .Version }}.tar.gz"
	s := serveProcess(t, []string{"TELEPORT_FIND_RELEASE_TEMPLATE=" + template}, "--listen", "127.0.0.1:0", "--agent-version", "15.1.1")
	want := find.Answer{Version: "15.1.1", Edition: releases.OSS, AutoUpdate: true, ReleaseTemplate: template}
	if got := s.ask(""); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
}
