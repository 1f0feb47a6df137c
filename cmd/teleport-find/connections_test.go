package main

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ownAddress is an address of this machine that is not bounded like a loopback address.
func ownAddress(t *testing.T) net.IP {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP
		}
	}
	t.Skip("this machine has loopback addresses only")
	return nil
}

// closedAtOnce reports whether the server closes a connection that says nothing.
func closedAtOnce(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := io.ReadAll(conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// By each listener of the server.
func TestAnAddressWithTooManyConnectionsKeepsNobodyFromAsking(t *testing.T) {
	if testing.Short() {
		t.Skip("servers are started and stopped again and again")
	}
	own := ownAddress(t).String()
	dir := t.TempDir()
	bound := []string{"TELEPORT_FIND_CONNECTIONS_PER_ADDRESS=3"}
	p := serveProcess(t, bound, "--listen", "0.0.0.0:0", "--self-signed", "--hostname", "127.0.0.1", "--store", filepath.Join(dir, "store", "store.db"),
		"--admin-listen", "0.0.0.0:0", "--metrics-listen", "0.0.0.0:0")
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	for name, port := range map[string]string{
		"find":    at.Port(),
		"admin":   p.logged(`an access token" address=\S+:(\d+)`),
		"metrics": p.logged(`"serving metrics" address=\S+:(\d+)`),
	} {
		var all []net.Conn
		dial := func() net.Conn {
			conn, err := net.Dial("tcp", net.JoinHostPort(own, port))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		for range 3 {
			all = append(all, dial())
		}
		if !closedAtOnce(t, dial()) {
			t.Errorf("%s: a fourth connection of an address stays open", name)
		}
		for i, conn := range all {
			if closedAtOnce(t, conn) {
				t.Errorf("%s: connection %d of an address was closed", name, i+1)
			}
		}
		other, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", port), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Errorf("%s: another address gets no connection: %v", name, err)
			continue
		}
		other.Close()
	}
}

func TestANegativeNumberOfConnectionsIsRefused(t *testing.T) {
	if out, code := (&kept{t: t, dir: t.TempDir()}).run("serve", "--connections-per-address", "-1"); code != 2 {
		t.Errorf("serve ends with %d: %s", code, out)
	}
}
