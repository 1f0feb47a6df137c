package release

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Unit is the release's teleport.service. The zero value is Teleport's own.
type Unit struct {
	Type         string        // "simple" (default) or "notify"
	Restart      string        // default "on-failure"
	RestartDelay time.Duration // RestartSec; default 5 s
	StopTimeout  time.Duration // TimeoutStopSec; 0: systemd's default, 90 s
	LinkDir      string        // where the binaries are linked; default /usr/local/bin
	FIPS         bool          // it starts the agent with --fips
	// NoReload leaves out ExecReload.
	NoReload bool
}

func (u *Unit) setDefaults() {
	u.Type = cmp.Or(u.Type, "simple")
	u.Restart = cmp.Or(u.Restart, "on-failure")
	u.RestartDelay = cmp.Or(u.RestartDelay, 5*time.Second)
	u.LinkDir = cmp.Or(u.LinkDir, "/usr/local/bin")
}

// Text returns the content of the unit file.
func (u Unit) Text() string {
	u.setDefaults()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("[Unit]")
	line("Description=Teleport Service")
	line("After=network.target")
	line("")
	line("[Service]")
	line("Type=%s", u.Type)
	line("Restart=%s", u.Restart)
	line("RestartSec=%dms", u.RestartDelay.Milliseconds())
	if u.StopTimeout > 0 {
		line("TimeoutStopSec=%dms", u.StopTimeout.Milliseconds())
	}
	line("EnvironmentFile=-/etc/default/teleport")
	fips := ""
	if u.FIPS {
		fips = " --fips"
	}
	line("ExecStart=%s/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid%s", u.LinkDir, fips)
	if !u.NoReload {
		line("# systemd before 239 needs an absolute path")
		line(`ExecReload=/bin/sh -c "exec pkill -HUP -L -F /run/teleport.pid"`)
	}
	line("PIDFile=/run/teleport.pid")
	line("LimitNOFILE=524288")
	line("")
	line("[Install]")
	line("WantedBy=multi-user.target")
	return b.String()
}
