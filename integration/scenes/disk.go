package scenes

import "fmt"

// Small mounts a small file system of its own in the host.
func (s *Scene) Small(dir, size string, files int) {
	s.T.Helper()
	if err := s.MkdirAll(dir); err != nil {
		s.T.Fatal(err)
	}
	s.Must("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%s,nr_inodes=%d,mode=755", size, files), "tmpfs", dir)
}

// Free is what a file system has left: bytes and files.
func (s *Scene) Free(dir string) (bytes, files int64) {
	s.T.Helper()
	if _, err := fmt.Sscan(s.Must("stat", "-f", "-c", "%a %d", dir), &bytes, &files); err != nil {
		s.T.Fatal(err)
	}
	return bytes * 4096, files
}

// Leave fills a file system until so much is free.
func (s *Scene) Leave(dir string, bytes int64) {
	s.T.Helper()
	free, _ := s.Free(dir)
	s.Must("fallocate", "-l", fmt.Sprint(free-bytes), dir+"/ballast")
}
