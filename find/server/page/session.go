package page

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"teleport-update/find/server/parts"
)

const (
	// sessionLife is for how long somebody is signed in: a working day.
	sessionLife = 12 * time.Hour
	// maxSessions bounds what those with a token can make the server keep; the oldest ends.
	maxSessions = 1000
	// plainCookie and secureCookie are the names of the cookie: a browser takes the second only over TLS, from this
	// server itself, and for all of its paths.
	plainCookie, secureCookie = "teleport-find", "__Host-teleport-find"
)

// session is somebody who is signed in. It ends with the process, with the token, and by the clock.
type session struct {
	id     string // the hash of what the cookie has
	holder string // the hash of the access token
	csrf   string // what forms have to say
	begun  time.Time

	mu     sync.Mutex
	notice string
}

// setNotice keeps what the next view says first.
func (s *session) setNotice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notice = text
}

func (s *session) takeNotice() (text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, s.notice = s.notice, ""
	return text
}

// says reports whether a form is one that this session was shown.
func (s *session) says(csrf string) bool {
	return subtle.ConstantTimeCompare([]byte(s.csrf), []byte(csrf)) == 1
}

// sessions are kept in memory, by the hash of the cookie: what is in a core dump signs nobody in.
type sessions struct {
	clock func() time.Time

	mu   sync.Mutex
	byID map[string]*session
}

// begin signs the holder of a token in, and returns what the cookie has.
func (s *sessions) begin(holder string) (cookie string) {
	cookie = rand.Text() + rand.Text()
	one := &session{id: parts.HashOfToken(cookie), holder: holder, csrf: rand.Text(), begun: s.clock()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[string]*session)
	}
	var oldest []*session
	for id, other := range s.byID {
		if other.over(one.begun) {
			delete(s.byID, id)
			continue
		}
		oldest = append(oldest, other)
	}
	if len(oldest) >= maxSessions {
		first := slices.MinFunc(oldest, func(a, b *session) int { return cmp.Compare(a.begun.UnixNano(), b.begun.UnixNano()) })
		delete(s.byID, first.id)
	}
	s.byID[one.id] = one
	return cookie
}

func (s *session) over(now time.Time) bool { return now.Sub(s.begun) > sessionLife }

// of returns the session of a cookie, nil for none.
func (s *sessions) of(cookie string) *session {
	if cookie == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byID[parts.HashOfToken(cookie)]
	if one == nil || one.over(s.clock()) {
		return nil
	}
	return one
}

func (s *sessions) end(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, one.id)
}

// encrypted reports whether the visitor's browser speaks TLS, with this server or with a proxy before it. Whoever claims it
// without gets a cookie that their own browser drops.
func encrypted(r *http.Request) bool {
	browser, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",") // each proxy of a chain adds what it was asked by
	return r.TLS != nil || strings.EqualFold(strings.TrimSpace(browser), "https")
}

// setCookie gives the browser the value of a session; an empty one takes it away.
func setCookie(w http.ResponseWriter, r *http.Request, value string) {
	c := &http.Cookie{Name: plainCookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		MaxAge: int(sessionLife / time.Second)}
	if encrypted(r) {
		c.Name, c.Secure = secureCookie, true
	}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

func cookieOf(r *http.Request) string {
	name := plainCookie
	if encrypted(r) {
		name = secureCookie
	}
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
