package main

import (
	"log/slog"
	"net/http"

	"github.com/urfave/cli/v2"

	"teleport-update/find/server/files"
)

// repositoryFlag is the flag of serve that withRepository reads.
func repositoryFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "repository", EnvVars: []string{"TELEPORT_FIND_REPOSITORY"}, Usage: "`DIR` with signed apt and yum repositories to " +
			"serve, as /apt and /yum",
		// Checked before the server says that it is ready.
		Action: func(_ *cli.Context, dir string) error {
			_, err := files.OpenRepository(dir, slog.New(slog.DiscardHandler))
			return err
		},
	}
}

// withRepository serves the repository, if there is one, beside other paths. The server
// has no key for it: a repository is signed where it is made.
func withRepository(c *cli.Context, next http.Handler, log *slog.Logger) (http.Handler, error) {
	dir := c.String("repository")
	if dir == "" {
		return next, nil
	}
	repository, err := files.OpenRepository(dir, log)
	if err != nil {
		return nil, err
	}
	log.Info("serving repositories", "dir", dir)
	return repository.Wrap(next), nil
}
