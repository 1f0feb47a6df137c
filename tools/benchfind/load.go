package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// connections are kept open for the whole of a sample.
const connections = 32

// requests are those of different hosts.
func requests(hosts int) (list [][]byte) {
	const many = 20_000
	for i := range min(many, hosts) {
		host := i * (hosts / min(many, hosts))
		list = append(list, fmt.Appendf(nil, "GET /v1/webapi/find?host=%s&group=%s HTTP/1.1\r\nHost: find.example.com\r\n"+
			"Accept: application/json\r\nUser-Agent: teleport-update\r\n\r\n", hostID(host), groupOf(host)))
	}
	return list
}

// sample is what came of asking one contender for a while.
type sample struct {
	answers int
	rate    float64 // answers a second
	p99     time.Duration
}

// ask has every connection ask one question after the other. net/http's client
// would cost more than the servers do.
func ask(ctx context.Context, address string, asked [][]byte, each time.Duration) (sample, error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	began := time.Now()
	end := began.Add(each)
	for c := range connections {
		all.Go(func() {
			mine, err := askOn(ctx, address, asked, c, end)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			failed = errors.Join(failed, err)
		})
	}
	all.Wait()
	elapsed := time.Since(began)
	if failed != nil || len(took) == 0 {
		return sample{}, errors.Join(failed, ctx.Err())
	}
	slices.Sort(took)
	return sample{len(took), float64(len(took)) / elapsed.Seconds(), took[len(took)*99/100]}, nil
}

func askOn(ctx context.Context, address string, asked [][]byte, c int, end time.Time) (took []time.Duration, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for i := c * len(asked) / connections; ctx.Err() == nil; i++ {
		start := time.Now()
		if start.After(end) {
			break
		}
		if _, err := conn.Write(asked[i%len(asked)]); err != nil {
			return took, err
		}
		if err := readAnswer(reader); err != nil {
			return took, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

var contentLength = []byte("Content-Length: ")

// readAnswer reads one answer of 200 with a length.
func readAnswer(r *bufio.Reader) error {
	length := -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
			return fmt.Errorf("the answer is %q", line)
		}
		if len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("the answer has no length")
	}
	_, err := r.Discard(length)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
