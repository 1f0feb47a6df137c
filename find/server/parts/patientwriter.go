package parts

import (
	"io"
	"net/http"
	"time"
)

// A download may take hours, but each block of it must be taken within
// blockTime: about 9 kB/s, a quarter of the slowest line worth serving.
const (
	BlockSize = 1 << 20
	blockTime = 2 * time.Minute
)

// PatientWriter lets a response take as long as it needs while the client keeps
// taking it.
type PatientWriter struct{ http.ResponseWriter }

func (w *PatientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *PatientWriter) Write(p []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(p)
}

// ReadFrom copies in blocks. net/http can hand each of them to sendfile(2).
func (w *PatientWriter) ReadFrom(src io.Reader) (total int64, err error) {
	// net/http looks for the file behind one limit, not behind two.
	whole, ok := src.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	for whole.N > 0 {
		w.extend()
		n, err := io.Copy(w.ResponseWriter, &io.LimitedReader{R: whole.R, N: min(whole.N, BlockSize)})
		whole.N -= n
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

func (w *PatientWriter) extend() {
	http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(blockTime))
}
