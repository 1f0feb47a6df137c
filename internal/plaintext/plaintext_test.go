package plaintext

import "testing"

func TestTextOfOtherSystems(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"nothing":                            {"", ""},
		"no mark":                            {"é\n", "é\n"},
		"not in UTF-8, and no mark":          {"\xe9", "\xe9"},
		"a mark of UTF-8":                    {"\xef\xbb\xbfé\r\n", "é\r\n"},
		"a mark alone":                       {"\xef\xbb\xbf", ""},
		"a second mark is text":              {"\xef\xbb\xbf\xef\xbb\xbfa", "\xef\xbb\xbfa"},
		"UTF-16":                             {"\xff\xfea\x00\xe9\x00\n\x00", "aé\n"},
		"UTF-16, big-endian":                 {"\xfe\xff\x00a\x00\xe9\x00\n", "aé\n"},
		"UTF-16 with a pair":                 {"\xff\xfe\x3d\xd8\x00\xde", "\U0001f600"},
		"UTF-16 without text":                {"\xff\xfe", ""},
		"half a character at the end":        {"\xff\xfea\x00b", "\xff\xfea\x00b"},
		"half a pair at the end":             {"\xff\xfe\x3d\xd8", "\xff\xfe\x3d\xd8"},
		"half a pair":                        {"\xff\xfe\x3d\xd8a\x00", "\xff\xfe\x3d\xd8a\x00"},
		"a replacement character as written": {"\xff\xfe\xfd\xff", "\ufffd"},
	} {
		if got := string(UTF8([]byte(tc.in))); got != tc.want {
			t.Errorf("%s: %q becomes %q; want %q", name, tc.in, got, tc.want)
		}
	}
}
