package main

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// hello is what an agent tells its cluster of itself each time that it connects.
type hello struct {
	HostUUID string   `json:"host_uuid"`
	Version  string   `json:"version"`
	Updater  *updater `json:"updater"` // nil: nobody keeps the agent up to date
}

// updater is how the agent is kept up to date, as it reads it.
type updater struct {
	Group  string `json:"group"`
	Status string `json:"status"` // "ok", "pinned" or "disabled"
	ID     string `json:"id"`     // empty if there is no file for it
}

// updaterConfig is the part of the updater's configuration that an agent reads.
type updaterConfig struct {
	Version string `yaml:"version"`
	Kind    string `yaml:"kind"`
	Spec    struct {
		Group   string `yaml:"group"`
		Enabled bool   `yaml:"enabled"`
		Pinned  bool   `yaml:"pinned"`
	} `yaml:"spec"`
	Status struct {
		IDFile string `yaml:"id_file"`
	} `yaml:"status"`
}

// sayHello connects to the cluster again and again, as an agent does whose connections
// are cut.
func sayHello(ctx context.Context, version string, c config) {
	for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		h := hello{Version: version}
		id, err := os.ReadFile(filepath.Join(c.Teleport.DataDir, "host_uuid"))
		h.HostUUID = strings.TrimSpace(string(id))
		if err == nil {
			h.Updater, err = readUpdater(h.HostUUID)
		}
		if err != nil {
			slog.Error("What keeps this agent up to date is not known.", "error", err)
		}
		if err := h.send(ctx, c.StandIn.Cluster); err != nil && ctx.Err() == nil {
			slog.Error("The cluster does not answer.", "error", err)
		}
	}
}

func (h hello) send(ctx context.Context, url string) error {
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

// managed is Teleport's rule: systemd is there, and the program, with the links that the
// kernel resolved, lies below the updater's folder, but not where packages have it.
func managed() (bool, error) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return false, nil
	}
	exe, err := os.Executable()
	dir := os.Getenv("TELEPORT_UPDATE_INSTALL_DIR")
	if dir == "" {
		dir = "/opt/teleport"
	}
	return err == nil && below(exe, dir) && !below(exe, "/opt/teleport/system"), err
}

func below(file, dir string) bool { return strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/") }

// readUpdater reads the updater's configuration, and writes the updater's id where that
// says. Nothing but the environment that the process was started with says where it is.
func readUpdater(hostUUID string) (*updater, error) {
	if ok, err := managed(); !ok || err != nil {
		return nil, err
	}
	path := os.Getenv("TELEPORT_UPDATE_CONFIG_FILE")
	if path == "" {
		path = "/opt/teleport/default/update.yaml"
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c updaterConfig
	if err := yaml.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if c.Version != "v1" || c.Kind != "update_config" {
		return nil, fmt.Errorf("%s is %s %s", path, c.Kind, c.Version)
	}
	u := updater{Group: c.Spec.Group, Status: "ok"}
	if u.Group == "" {
		u.Group = "default"
	}
	switch {
	case !c.Spec.Enabled:
		u.Status = "disabled"
	case c.Spec.Pinned:
		u.Status = "pinned"
	}
	if c.Status.IDFile == "" {
		return &u, errors.New("there is no file for the updater's id")
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return &u, err
	}
	// A name-based UUID of both, so that neither a copied host_uuid nor a copied
	// machine-id alone makes two hosts one.
	sum := sha1.Sum([]byte(hostUUID + strings.TrimSpace(string(machine))))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	id := fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	if err := os.WriteFile(c.Status.IDFile, []byte(id), 0o644); err != nil {
		return &u, err
	}
	u.ID = id
	return &u, nil
}
