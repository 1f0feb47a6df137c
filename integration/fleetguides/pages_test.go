//go:build hosts

package fleetguides

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teleport-update/integration/markdown"
)

// module is the repository's folder.
var module = filepath.Join("..", "..")

// machine is a host of a page.
type machine struct {
	name     string
	packages []string // of Debian, beyond what every host of a page has
}

// page is one that is run here, with the hosts of its marks "on: NAME". Blocks before the first mark run on the
// first host.
type page struct {
	file  string
	hosts []machine
	begin func(*reader) // what is there when the page begins; may be nil
	long  bool          // run with FAULTS=all alone, as `make test-nightly` has it
}

var pages = []page{
	{"docs/postgresql.md", []machine{
		{"db1.example.com", []string{"postgresql"}}, {"db2.example.com", []string{"postgresql"}},
		{"find1.example.com", nil}, {"find2.example.com", nil},
	}, nil, false},
	{"docs/changing-settings.md", []machine{
		{"find.example.com", nil}, {"mirror.example.com", nil}, {"find2.example.com", nil}, {"proxy.example.com", []string{"tinyproxy"}}, {"web-1.example.com", nil},
	}, enabledHost, false},
	{"docs/first-fleet.md", []machine{
		{"find.example.com", nil}, {"web-1.example.com", nil}, {"web-2.example.com", nil}, {"db-1.example.com", nil},
	}, beforeTheFirstFleet, false},
	{"docs/proxies.md", []machine{{"find.example.com", []string{"nginx-light", "haproxy"}}, {"web-1.example.com", nil}}, behindAProxy, true},
	{"docs/production.md", []machine{
		{"find.example.com", []string{"nginx-light"}}, {"find1.example.com", nil}, {"monitor.example.com", []string{"prometheus"}},
		{"web-1.example.com", nil}, {"web-2.example.com", nil}, {"web-3.example.com", nil},
	}, companyMachines, true},
}

// behindAProxy is a machine with an authority of its own and releases, before anything is configured on it.
func behindAProxy(r *reader) {
	find, web := r.hosts["find.example.com"], r.hosts["web-1.example.com"]
	r.sh(find, `mkdir /root/ca; cd /root/ca
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30 -subj "/CN=Example" -keyout ca.key -out ca.pem
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30 -subj "/CN=find.example.com" \
  -addext "subjectAltName=DNS:find.example.com" -addext basicConstraints=critical,CA:FALSE -CA ca.pem -CAkey ca.key -keyout find.key -out find.pem
cp find.pem /etc/ssl/find.example.com.pem
cp find.key /etc/ssl/private/find.example.com.key`)
	web.Write("/etc/ssl/example-ca.pem", find.Read("/root/ca/ca.pem"))
	r.releases(find, "/var/lib/teleport-find/releases")
	r.agent("web-1.example.com")
}

// companyMachines are those of a company with an authority of its own, releases on the server, and Prometheus.
func companyMachines(r *reader) {
	const ca = "/root/ca"
	lb, server, monitor := r.hosts["find.example.com"], r.hosts["find1.example.com"], r.hosts["monitor.example.com"]
	r.sh(lb, "mkdir "+ca+"; cd "+ca+`
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30 -subj "/CN=Example" -keyout ca.key -out ca.pem
for name in find find1; do
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30 -subj "/CN=$name.example.com" \
    -addext "subjectAltName=DNS:$name.example.com" -addext basicConstraints=critical,CA:FALSE -CA ca.pem -CAkey ca.key -keyout $name.key -out $name.pem
done
cp find.pem /etc/ssl/find.example.com.pem
cp find.key /etc/ssl/private/find.example.com.key`)
	for _, h := range r.hosts {
		h.Write("/etc/ssl/example-ca.pem", lb.Read(ca+"/ca.pem"))
	}
	server.Write("/etc/teleport-find/find1.pem", lb.Read(ca+"/find1.pem"))
	server.Write("/etc/teleport-find/find1.key", lb.Read(ca+"/find1.key"))
	r.releases(server, "/var/lib/teleport-find/releases")
	r.withClock("find1.example.com")
	for _, name := range []string{"web-1.example.com", "web-2.example.com", "web-3.example.com"} {
		r.agent(name)
	}
	for _, name := range []string{"find.rules.yml", "hosts.rules.yml"} {
		check(r.t, monitor.CopyIn(filepath.Join(module, "packaging/monitoring", name), "/root/packaging/monitoring/"+name, 0o644))
	}
}

// beforeTheFirstFleet are machines with nothing on them, Teleport's CDN and a chat.
func beforeTheFirstFleet(r *reader) {
	r.outside("find.example.com")
	r.withClock("find.example.com")
	for _, name := range []string{"web-1.example.com", "web-2.example.com", "db-1.example.com"} {
		r.agent(name)
	}
}

// enabledHost is a host that is enabled, a mirror, another find server and an HTTP proxy. Its version is proven when a page
// begins: else it would be somewhere in a page, after the health window.
func enabledHost(r *reader) {
	for _, name := range []string{"find.example.com", "mirror.example.com", "find2.example.com"} {
		r.server(name, "15.1.1")
	}
	proxy := r.hosts["proxy.example.com"]
	r.sh(proxy, "printf 'Allow 192.0.2.0/24\\nConnectPort 3443\\n' >> /etc/tinyproxy/tinyproxy.conf; systemctl restart tinyproxy")
	r.agent("web-1.example.com")
	web := r.hosts["web-1.example.com"]
	token := r.sh(r.hosts["find.example.com"], "teleport-find token add all")
	check(r.t, web.WriteFile("/etc/find-token", []byte(token), 0o600))
	r.sh(web, `apt-get install --yes -o Dpkg::Options::=--force-confold /root/teleport-update_1.2.3_*.deb
scp -q find.example.com:/var/lib/teleport-find/tls/ca.pem /etc/ssl/example-ca.pem
teleport-update enable --proxy find.example.com:3443 --allow-proxy-conflict --ca-file /etc/ssl/example-ca.pem --report-token-file /etc/find-token \
  --health-window 1s --template 'https://find.example.com:3443/releases/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz'
systemctl enable --now teleport
for try in $(seq 60); do
  systemctl start teleport-update.service
  ! teleport-update status --offline --format text | grep -q '^State: *idle' || exit 0
  sleep 1
done
teleport-update status --format text
exit 1`)
}

// What a page says is so, and each of its commands does what the page says.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, p := range pages {
		if p.long && os.Getenv("FAULTS") != "all" {
			continue
		}
		t.Run(filepath.Base(p.file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(module, p.file))
			check(t, err)
			blocks, err := markdown.Read(p.file, string(text))
			check(t, err)
			r := newReader(t, p)
			if p.begin != nil {
				p.begin(r)
			}
			for i, b := range blocks {
				shown := i+1 < len(blocks) && blocks[i+1].IsShown()
				r.block(b, shown)
				if shown {
					r.compare(blocks[i+1])
				}
			}
		})
	}
}

// No page that needs several hosts is forgotten.
func TestEveryPageOfSeveralHostsIsRun(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(module, "docs", "*.md"))
	check(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		name := "docs/" + filepath.Base(file)
		blocks, err := markdown.Read(name, string(text))
		check(t, err)
		run := slices.ContainsFunc(pages, func(p page) bool { return p.file == name })
		if needs := markdown.NeedsHosts(blocks); needs != run {
			t.Errorf("%s: marks \"on: HOST\" %v, run here %v", name, needs, run)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
