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
	// sessionLife is how long a session lasts: a working day.
	sessionLife = 12 * time.Hour
	// maxSessions bounds the sessions that holders of tokens can begin; the oldest ends.
	maxSessions = 1000
	// plainCookie and secureCookie are the names of the cookie: a browser takes the second only over TLS, from this
	// server itself, and for all of its paths.
	plainCookie, secureCookie = "teleport-find", "__Host-teleport-find"
)

// session is a visitor's signed-in session. It ends with the process, with the token, and by the clock.
type session struct {
	id     string // the hash of the cookie's value
	holder string // the hash of the access token
	csrf   string // each form must have it
	begun  time.Time

	mu     sync.Mutex
	notice string
}

// setNotice sets the text at the top of the next view.
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

// says reports whether a form comes from this session.
func (s *session) says(csrf string) bool {
	return subtle.ConstantTimeCompare([]byte(s.csrf), []byte(csrf)) == 1
}

// sessions are kept in memory, by the hash of the cookie: nobody can sign in with a core dump.
type sessions struct {
	clock func() time.Time

	mu   sync.Mutex
	byID map[string]*session
}

// begin begins a session for the holder of a token, and returns the cookie's value.
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

// of returns the session of a cookie, or nil.
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

// encrypted reports whether the visitor's browser speaks TLS, with this server or with a proxy before it. If a visitor only
// claims that, the browser drops the cookie.
func encrypted(r *http.Request) bool {
	browser, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",") // in a chain of proxies, each adds the scheme of its own request
	return r.TLS != nil || strings.EqualFold(strings.TrimSpace(browser), "https")
}

// setCookie sets the cookie of a session, or removes it if value is empty.
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
