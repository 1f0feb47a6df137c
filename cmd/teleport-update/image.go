package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"teleport-update/installer/image"
)

// imageCommand is for packaging/cloud-init/seal-image.sh: a shell does not read YAML.
func (a *app) imageCommand() *cli.Command {
	return &cli.Command{
		Name: "image", Usage: "say what in a file system must not be in an image", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "root", Required: true, Usage: "the file system's `FOLDER`"},
			&cli.BoolFlag{Name: "sealed", Usage: "look for identities that are left"},
		},
		Action: func(c *cli.Context) error {
			a.readOnly = true
			found, err := image.Look(c.String("root"))
			if err != nil {
				return err
			}
			if c.Bool("sealed") {
				files, err := image.Identities(c.String("root"), slices.Concat(found.DataDirs, found.KeyDirs))
				for _, f := range files {
					found.Secrets = append(found.Secrets, f+" holds a private key or an agent's database: take it out of the image")
				}
				if err != nil {
					return err
				}
			}
			for _, s := range found.Secrets {
				fmt.Fprintf(a.stdout, "secret %s\n", s)
			}
			for _, dir := range found.DataDirs {
				fmt.Fprintf(a.stdout, "data %s\n", dir)
			}
			return nil
		},
	}
}
