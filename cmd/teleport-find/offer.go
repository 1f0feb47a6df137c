package main

import (
	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/versions/fetch"
)

// releaseTemplateFlag is the flag of serve with the template in answers. It is checked like on
// hosts: they would not show an invalid one.
func releaseTemplateFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "release-template", EnvVars: []string{"TELEPORT_FIND_RELEASE_TEMPLATE"},
		Usage: "`URL` template of releases to offer to hosts: enable shows it to a person who named none; no host uses it by itself",
		Action: func(_ *cli.Context, text string) error {
			if text == "" {
				return nil
			}
			if len(text) > find.MaxReleaseTemplate {
				return usageErrorf("--release-template is longer than %d bytes", find.MaxReleaseTemplate)
			}
			if _, err := fetch.ParseOffered(text); err != nil {
				return usageErrorf("--release-template: %w", err)
			}
			return nil
		},
	}
}
