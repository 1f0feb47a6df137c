package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
)

// letGo is when a connection must send the whole of a report, at the latest.
const letGo = 2 * time.Second

// Whatever many connections leave out of a report, and from one address or from the host's own: the host is
// heard at once, and each of them is let go.
func TestStalledReportsTakeNobodysPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("it opens thousands of connections")
	}
	const many = 1500
	header := func(path, auth string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sContent-Length: 100\r\n\r\n", path, auth)
	}
	stalls := map[string]string{
		"a report without a body":           header(find.HeartbeatPath, "Authorization: Bearer "+strings.Repeat("x", 32)+"\r\n"),
		"a report with half a body":         header(find.HeartbeatPath, "Authorization: Bearer "+strings.Repeat("x", 32)+"\r\n") + `{"host_id":`,
		"a join without a body":             header(find.JoinPath, "Authorization: Bearer "+strings.Repeat("x", 32)+"\r\n"),
		"a report without an authorization": header(find.HeartbeatPath, ""),
	}
	const reports = 20
	for name, says := range stalls {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			r := w.reporting(newClock(), w.store)
			token := r.token("all")
			r.joined(token, "dev", 0)
			url, _ := start(t, r.handler, nil)
			began := time.Now()
			closed := make(chan error, many)
			for i := range many {
				// Some from the address of the host, some from others.
				dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%3))}}
				conn, err := dialer.Dial("tcp", strings.TrimPrefix(url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				io.WriteString(conn, says)
				go func() {
					_, err := io.Copy(io.Discard, bufio.NewReader(conn))
					closed <- err
				}()
			}
			for i := range reports {
				asked := time.Now()
				r.last[0]++
				body := fmt.Sprintf(`{"host_id":%q,"sequence":%d,"group":"dev","version":"17.2.%d"}`, hostUUID(0), r.last[0], i)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+find.HeartbeatPath, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Authorization", "Bearer "+r.secrets[0])
				resp, answer := do(t, req)
				if resp.StatusCode != http.StatusOK || time.Since(asked) > time.Second {
					t.Fatalf("report %d, after %s: %s %s, %s later", i, asked.Sub(began), resp.Status, answer, time.Since(asked))
				}
			}
			limit := time.After(10 * letGo)
			for n := range many {
				select {
				case <-closed:
				case <-limit:
					t.Fatalf("%d connections are still open", many-n)
				}
			}
		})
	}
}

// Of one address, 64 reports may be on their way; the next one ends the oldest, and takes nothing from
// another address.
func TestFewReportsOfOneAddressAreOnTheirWay(t *testing.T) {
	const few = 64
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	url, _ := start(t, r.handler, nil)
	for range 5 {
		began := time.Now()
		ended := make(chan int, few+10)
		stall := func(n int, from byte) {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}}
			conn, err := dialer.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n", find.HeartbeatPath, strings.Repeat("x", 32))
			reader := bufio.NewReader(conn)
			if _, err := reader.ReadString('\n'); err != nil { // it is read: the next one comes after it
				t.Fatal(err)
			}
			go func() {
				io.Copy(io.Discard, reader)
				ended <- n
			}()
		}
		stall(-1, 2)
		for n := range few {
			stall(n, 1)
		}
		early := len(ended)
		for n := range 3 {
			stall(few+n, 1)
		}
		first := []int{<-ended, <-ended, <-ended}
		slices.Sort(first)
		if time.Since(began) >= letGo {
			continue // their time was over: nobody was let go, or this machine was slow
		}
		if early != 0 || !slices.Equal(first, []int{0, 1, 2}) {
			t.Errorf("%d were let go before there were too many, and then %v", early, first)
		}
		return
	}
	t.Error("none was let go before its time was over, in five tries")
}
