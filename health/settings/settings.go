// Package settings has a person's settings for the watch of the agent's health. A setting is one field of Settings, which is in
// updates.yaml, in status and in the watch, and one row of All, which is its flag of enable: its help, the docs and its allowed values
// follow from the row.
package settings

import (
	"fmt"
	"net/url"

	"teleport-update/internal/duration"
)

// Settings are the settings of one host. A zero field was not set, and the default holds.
type Settings struct {
	// Window is how long the agent has to be healthy.
	Window duration.Duration `yaml:"window,omitempty" json:"window,omitzero"`
	// ReadyURL answers 200 at the window's end, or within 5 s after it. It is asked without a proxy, redirects do not
	// count, and https is verified. Empty: not asked.
	ReadyURL string `yaml:"ready_url,omitempty" json:"ready_url,omitempty"`
	// RollbackWindow is the time after its transaction in which a version that crashes again and again is left for the previous one, by the
	// timer's run; 0 means never.
	RollbackWindow duration.Duration `yaml:"rollback_window,omitempty" json:"rollback_window,omitzero"`
}

// Row is a setting of a T.
type Row[T any] struct {
	Flag, Usage string
	Default     string // the value if nothing is set, for the help; may be empty
	Plain       bool   // the flag needs no value: --FLAG, or --FLAG=false
	// Set takes the text of a flag. Its error says what is wrong with the text.
	Set func(of *T, text string) error
}

// All are the settings in the order of the help.
var All = []Row[Settings]{
	{"ready-url", "URL that must answer 200 before a version counts as proven", "", false, func(s *Settings, text string) error {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%q is not an http or https URL", text)
		}
		s.ReadyURL = text
		return nil
	}},
	{"health-window", "how long the agent must be healthy", "30s, longer for an agent that systemd restarts slowly", false,
		func(s *Settings, text string) error { return s.Window.UnmarshalText([]byte(text)) }},
	{"rollback-window", "how long after an update a version that crashes again and again is rolled back by itself, with the database " +
		"from before the update", "off", false,
		func(s *Settings, text string) error { return s.RollbackWindow.UnmarshalText([]byte(text)) }},
}
