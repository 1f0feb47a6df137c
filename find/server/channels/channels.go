// Package channels answers updaters of RFD 0109. A channel has a version of its own, follows a group, or forwards
// a channel of another server, whose last good answer stays.
package channels

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
	"teleport-update/internal/webclient"
)

// ChannelPath is where shipped updaters of RFD 0109 ask for a channel, beside /v1/.
const ChannelPath = "/v1/webapi/automaticupgrades/channel/"

// DefaultChannel needs no configuration. It is for hosts of no group.
const DefaultChannel = "default"

// GroupSource gives the answers of channels that follow a group. It must not block.
type GroupSource interface {
	// Channel returns the version, empty for none, and whether it is critical.
	Channel(group string) (version string, critical bool)
	// Window is when the hosts of a group may update, if it has a window.
	Window(group string) (rollout.Window, bool)
}

// ChannelsOptions are the parts of Channels.
type ChannelsOptions struct {
	// File defines the channels; empty: DefaultChannel alone.
	File   string
	Groups GroupSource
	HTTP   *http.Client // for forwarded channels; see webclient
	Clock  func() time.Time
	Log    *slog.Logger
}

// Channels answers updaters of RFD 0109: each channel has a version and says whether it
// is critical. A channel without a version answers 404, and an updater does nothing.
//
//	GET /v1/CHANNEL/version   such as 15.1.1
//	GET /v1/CHANNEL/critical  yes or no
//
// and the same below ChannelPath. The file is YAML, a mapping from the names of
// channels, which may have slashes in them, to one of
//
//	stable/cloud: {version: 15.1.1, critical: false}
//	edge: {group: dev}
//	upstream: {forward: https://updates.example.com/v1/stable/cloud}
type Channels struct {
	opts    ChannelsOptions
	current atomic.Pointer[map[string]channel]

	loading  sync.Mutex
	file     parts.WatchedFile
	forwards map[string]*forward // by their URLs: an edit of the file forgets no good answer
}

// channel has a version, a group or a forward.
type channel struct {
	version  string
	critical bool
	group    *string
	forward  *forward
}

// NewChannels returns the channels of a file, or the error in it.
func NewChannels(opts ChannelsOptions) (*Channels, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	c := &Channels{opts: opts, file: parts.WatchedFile{Path: opts.File}, forwards: make(map[string]*forward)}
	return c, c.Reload()
}

// Reload reads the file again. After an error the channels stay as they were.
func (c *Channels) Reload() error {
	c.loading.Lock()
	defer c.loading.Unlock()
	group := ""
	next := map[string]channel{DefaultChannel: {group: &group}}
	if path := c.opts.File; path != "" {
		data, err := c.file.Read()
		if err == nil {
			var named map[string]channel
			named, err = c.parse(data)
			maps.Copy(next, named)
		}
		if err != nil {
			return fmt.Errorf("channels file %s: %w", path, err)
		}
	}
	c.current.Store(&next)
	c.opts.Log.Info("channels", "names", slices.Sorted(maps.Keys(next)))
	return nil
}

// Watch takes up edits of the file until ctx ends, as Static.Watch does.
func (c *Channels) Watch(ctx context.Context, every time.Duration) {
	c.file.Watch(ctx, every, func() {
		if err := c.Reload(); err != nil {
			c.opts.Log.Error("the channels file cannot be used, channels stay as they were", "error", err)
		}
	})
}

// get returns the version of a channel, which may be empty, and whether it is critical.
func (c *Channels) get(ctx context.Context, one channel) (v string, critical bool) {
	switch {
	case one.group != nil:
		return c.opts.Groups.Channel(*one.group)
	case one.forward != nil:
		said := one.forward.get(ctx)
		return said.version, said.critical
	}
	return one.version, one.critical
}

// ServeHTTP answers for the channel in the path value "path", which ends in version or
// critical.
func (c *Channels) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := strings.LastIndexByte(r.PathValue("path"), '/')
	if at < 0 {
		http.NotFound(w, r)
		return
	}
	name, what := r.PathValue("path")[:at], r.PathValue("path")[at+1:]
	one, known := (*c.current.Load())[name]
	if !known || what != "version" && what != "critical" {
		http.Error(w, "there is no such channel", http.StatusNotFound)
		return
	}
	v, critical := c.get(r.Context(), one)
	if v == "" && what == "version" {
		http.Error(w, "the channel has no version now", http.StatusNotFound)
		return
	}
	if what == "critical" {
		v = yesNo(critical)
	}
	header := w.Header()
	header["Content-Type"] = parts.PlainText
	header["Cache-Control"] = parts.NoStore
	io.WriteString(w, v)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// List returns the present answers of all channels.
func (c *Channels) List(ctx context.Context) (list []adminapi.Channel) {
	channels := *c.current.Load()
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		one := channels[name]
		line := adminapi.Channel{Name: name, Source: "static"}
		line.Version, line.Critical = c.get(ctx, one)
		switch {
		case one.group != nil && *one.group == "":
			line.Source = "hosts of no group"
		case one.group != nil:
			line.Source = "group " + *one.group
		case one.forward != nil:
			said := one.forward.get(ctx)
			line.Source = "forward " + webclient.Redact(one.forward.url)
			if said.err != nil {
				line.Error = webclient.RedactError(said.err).Error()
			}
			if !said.at.IsZero() {
				line.Age = c.opts.Clock().Sub(said.at).Seconds()
			}
		}
		list = append(list, line)
	}
	return list
}

// Register has the channels answer at their addresses.
func (c *Channels) Register(mux *http.ServeMux) {
	mux.Handle("GET /v1/{path...}", c)
	mux.Handle("GET "+ChannelPath+"{path...}", c)
	mux.Handle("GET /v1/webapi/maintenance", c.Maintenance())
}

// Maintenance answers with the window of a group, as lines for OnCalendar= of a systemd
// timer.
func (c *Channels) Maintenance() http.Handler {
	groups := c.opts.Groups
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if kind := query.Get("kind"); kind != "" && kind != "systemd_timer" {
			http.Error(w, "kind is systemd_timer", http.StatusBadRequest)
			return
		}
		window, ok := groups.Window(query.Get("group"))
		if !ok {
			http.Error(w, "the group has no window", http.StatusNotFound)
			return
		}
		header := w.Header()
		header["Content-Type"] = parts.PlainText
		header["Cache-Control"] = parts.NoStore
		io.WriteString(w, strings.Join(window.OnCalendar(), "\n")+"\n")
	})
}
