package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A session is begun with the token and lasts so long. It is a cookie that is signed with the
// token: nothing is kept, a restart ends none, and another token ends all.
const (
	sessionTime   = 12 * time.Hour
	maxLogin      = 4 << 10
	wrongTakes    = time.Second // with atOnce at a time, no more than four guesses a second
	loginPath     = "/login"
	logoutPath    = "/logout"
	sessionBytes  = 8 + 16 // end and nonce
	signatureSize = sha256.Size
)

//go:embed login.html
var loginHTML string

var (
	loginStyle = loginHTML[strings.Index(loginHTML, "<style>")+len("<style>") : strings.Index(loginHTML, "</style>")]
	loginForm  = template.Must(template.New("login").Parse(loginHTML))
)

// A login lets browsers in, which cannot bring a bearer token: they send it once in a form, and
// get a session.
type login struct {
	external *url.URL
	token    string
	key      []byte
	asking   chan struct{}
}

func newLogin(external *url.URL, token string) *login {
	key := sha256.Sum256([]byte("sixty session\x00" + token))
	return &login{external: external, token: token, key: key[:], asking: make(chan struct{}, atOnce)}
}

// name is that of the cookie. Cookies know no ports: two monitors on one host have two.
func (l *login) name() string {
	sum := sha256.Sum256([]byte(l.external.String()))
	return "sixty_session_" + hex.EncodeToString(sum[:4])
}

func (l *login) sign(session []byte) []byte {
	m := hmac.New(sha256.New, l.key)
	m.Write(session)
	return m.Sum(nil)
}

// hasSession reports whether a request is of a session.
func (l *login) hasSession(r *http.Request) bool {
	c, err := r.Cookie(l.name())
	if err != nil {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || len(raw) != sessionBytes+signatureSize || !hmac.Equal(l.sign(raw[:sessionBytes]), raw[sessionBytes:]) {
		return false
	}
	left := time.Until(time.Unix(int64(binary.BigEndian.Uint64(raw)), 0)) //nolint:gosec // signed by us
	return left > 0 && left <= sessionTime
}

// cookie is a session's; an empty value ends it.
func (l *login) cookie(r *http.Request, value string, lasts time.Duration) *http.Cookie {
	c := &http.Cookie{
		Name: l.name(), Value: value, Path: strings.TrimSuffix(l.external.Path, "/") + "/", MaxAge: int(lasts.Seconds()), HttpOnly: true,
		Secure: r.TLS != nil || l.external.Scheme == "https", SameSite: http.SameSiteStrictMode,
	}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// handle answers what is of the login, and reports whether it did.
func (l *login) handle(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.URL.Path == loginPath && r.Method == http.MethodPost:
		Limited(l.asking, http.HandlerFunc(l.submitForm)).ServeHTTP(w, r)
	case r.URL.Path == loginPath && r.URL.Query().Has("next") && l.hasSession(r):
		http.Redirect(w, r, l.prefix()+localPath(r.URL.Query().Get("next")), http.StatusSeeOther)
	case r.URL.Path == loginPath:
		l.show(w, r, http.StatusOK, r.URL.Query().Get("next"), "")
	case r.URL.Path == logoutPath && r.Method == http.MethodPost:
		http.SetCookie(w, l.cookie(r, "", 0))
		l.show(w, r, http.StatusOK, "", "You are logged out.")
	default:
		return false
	}
	return true
}

// submitForm takes the form.
func (l *login) submitForm(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	if err := r.ParseForm(); err != nil {
		Fail(w, http.StatusBadRequest, errors.New("the form cannot be read"))
		return
	}
	next := r.PostForm.Get("next")
	if subtle.ConstantTimeCompare([]byte(strings.TrimSpace(r.PostForm.Get("token"))), []byte(l.token)) != 1 {
		select {
		case <-time.After(wrongTakes):
			l.show(w, r, http.StatusUnauthorized, next, "That is not the token.")
		case <-r.Context().Done():
		}
		return
	}
	session := make([]byte, sessionBytes, sessionBytes+signatureSize)
	binary.BigEndian.PutUint64(session, uint64(time.Now().Add(sessionTime).Unix())) //nolint:gosec // after 1970
	if _, err := rand.Read(session[8:]); err != nil {
		Fail(w, http.StatusInternalServerError, err)
		return
	}
	http.SetCookie(w, l.cookie(r, base64.RawURLEncoding.EncodeToString(append(session, l.sign(session)...)), sessionTime))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, l.prefix()+localPath(next), http.StatusSeeOther)
}

func (l *login) prefix() string { return strings.TrimSuffix(l.external.Path, "/") }

// localPath is a path of this server, whatever somebody wrote into a link.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") ||
		strings.ContainsAny(next, "\\\r\n\t") || u.Path == loginPath || u.Path == logoutPath {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

// showForm shows the form to who looks at a page, and reports whether it did: programs get an
// error that they understand.
func (l *login) showForm(w http.ResponseWriter, r *http.Request) bool {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !read || strings.HasPrefix(r.URL.Path, "/assets/") || r.URL.Path == "/mcp" || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		// Who follows a link of another site brings no cookie; who goes on from here does.
		w.Header().Set("Refresh", "0; url="+l.prefix()+loginPath+"?next="+url.QueryEscape(r.URL.RequestURI()))
	}
	l.show(w, r, http.StatusUnauthorized, r.URL.RequestURI(), "")
	return true
}

func (l *login) show(w http.ResponseWriter, r *http.Request, status int, next, told string) {
	h := w.Header()
	sum := sha256.Sum256([]byte(loginStyle))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = loginForm.Execute(w, struct { // a reader that left needs no answer
		Base, Next, Told string
		Wrong, In        bool
	}{l.prefix(), localPath(next), told, status == http.StatusUnauthorized && told != "", l.hasSession(r) && told == ""})
}
