//go:build hosts

package fleetguides

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"teleport-update/integration/host"
)

// A proxy passes on the install script of a server that listens on a loopback address. Where the server does not know its own
// address, or has a wrong one, root of another host runs nothing that a user of that host serves under the same address.
func TestAScriptThroughAProxyRunsNothingOfAnotherServer(t *testing.T) {
	if os.Getenv("FAULTS") != "all" {
		t.Skip("run by make test-nightly")
	}
	t.Parallel()
	r := newReader(t, page{hosts: []machine{{"find.example.com", []string{"nginx-light"}}, {"web-1.example.com", nil}}})
	behindAProxy(r)
	find, web := r.hosts["find.example.com"], r.hosts["web-1.example.com"]
	r.sh(find, `apt-get install --yes /root/teleport-find_1.2.3_*.deb
cp /root/teleport-update_1.2.3_*.deb /var/lib/teleport-find/packages/
printf '%s\n' 'server { listen 443 ssl; ssl_certificate /etc/ssl/find.example.com.pem; ssl_certificate_key /etc/ssl/private/find.example.com.key;' \
  'location / { proxy_pass http://127.0.0.1:3443; } }' > /etc/nginx/conf.d/find.conf
systemctl restart nginx`)

	// Whoever is on the host listens where the server listens on its own machine.
	var asked atomic.Int64
	listener, err := web.Listen("tcp", "127.0.0.1:3443")
	check(t, err)
	other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	})}
	go other.Serve(listener)
	t.Cleanup(func() { other.Close() })

	const public = "TELEPORT_FIND_PUBLIC_URL="
	for _, tc := range []struct {
		name, setting string
		code          int
		says          string
	}{
		{"the server does not know its address", "", 22, "404"},
		{"the server has a loopback address for a public one", public + "http://127.0.0.1:3443\n", 1, "which is this host itself"},
		{"the server knows its address", public + "https://find.example.com\n", 0, "teleport-update is installed"},
	} {
		find.Write("/etc/default/teleport-find", "TELEPORT_FIND_LISTEN=127.0.0.1:3443\n"+tc.setting)
		r.sh(find, "systemctl restart teleport-find; teleport-find set-version 15.1.1; teleport-find mode enabled")
		got, err := web.RunCommand(t.Context(), host.Command{Args: []string{"bash", "-o", "pipefail", "-c",
			`curl -fsS --cacert /etc/ssl/example-ca.pem https://find.example.com/scripts/install.sh | sh -s -- --ca-file /etc/ssl/example-ca.pem --allow-proxy-conflict`}})
		check(t, err)
		if got.Code != tc.code || !strings.Contains(got.Stderr, tc.says) {
			t.Errorf("%s: exit code %d; want %d and %q\n%s%s", tc.name, got.Code, tc.code, tc.says, got.Stdout, got.Stderr)
		}
		if n := asked.Load(); n > 0 {
			t.Errorf("%s: the other server was asked %d times", tc.name, n)
		}
		if tc.code != 0 && web.Try("test", "-e", "/usr/bin/teleport-update").Code == 0 {
			t.Errorf("%s: something was installed", tc.name)
		}
	}
}
