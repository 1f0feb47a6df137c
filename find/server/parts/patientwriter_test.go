package parts

import (
	"bytes"
	"io"
	"net/http/httptest"
	"testing"
	"time"
)

type deadlines struct {
	httptest.ResponseRecorder
	set int
}

func (d *deadlines) SetWriteDeadline(time.Time) error { d.set++; return nil }

func TestPatientWriterGivesEachBlockItsTime(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), (3*BlockSize+BlockSize/2)/16)
	for _, tc := range []struct {
		name string
		src  io.Reader
		size int
		want int
	}{
		{"a file of three and a half blocks", bytes.NewReader(content), len(content), 4},
		{"a part of it", bytes.NewReader(content), BlockSize + 1, 2},
		{"a file that is shorter than it was", bytes.NewReader(content[:100]), len(content), 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to := &deadlines{ResponseRecorder: *httptest.NewRecorder()}
			n, err := io.CopyN(&PatientWriter{ResponseWriter: to}, tc.src, int64(tc.size))
			if err != nil && err != io.EOF || !bytes.Equal(to.Body.Bytes(), content[:n]) {
				t.Errorf("copied %d: %v", n, err)
			}
			if to.set != tc.want {
				t.Errorf("%d deadlines; want %d", to.set, tc.want)
			}
		})
	}
}
