package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/monitor/access"
)

// A session is begun with the token, or at an OpenID Connect provider, and lasts so long. It is a
// cookie that is signed with the token and the provider's client secret: nothing is kept, a restart
// ends none, and another secret ends all.
const (
	sessionTime = 12 * time.Hour
	maxLogin    = 4 << 10
	wrongTakes  = time.Second // with atOnce at a time, no more than four guesses a second
	loginPath   = "/login"
	logoutPath  = "/logout"
	maxCookie   = 4 << 10
)

//go:embed login.html
var loginHTML string

var (
	loginStyle = loginHTML[strings.Index(loginHTML, "<style>")+len("<style>") : strings.Index(loginHTML, "</style>")]
	loginForm  = template.Must(template.New("login").Parse(loginHTML))
)

// A login lets browsers in, which cannot bring a bearer token: they send it once in a form, or come
// back from the provider, and get a session.
type login struct {
	external *url.URL
	token    string // "" where there is none
	provider *provider
	key      []byte
	asking   chan struct{}
	log      func(*http.Request, *access.Principal, int)
	grant    func(name string, groups []string) *access.Principal
}

// newLogin returns a login by the token, the provider or both, nil where there is neither.
func newLogin(external *url.URL, token string, p *provider) *login {
	if token == "" && p == nil {
		return nil
	}
	secret := token
	if p != nil {
		secret += "\x00" + p.oauth.ClientSecret
	}
	if strings.Trim(secret, "\x00") == "" { // a public client: sessions end with the process
		secret = rand.Text()
	}
	key := sha256.Sum256([]byte("sixty session\x00" + secret))
	return &login{external: external, token: token, provider: p, key: key[:], asking: make(chan struct{}, atOnce)}
}

// name is that of the cookie. Cookies know no ports: two monitors on one host have two.
func (l *login) name() string {
	sum := sha256.Sum256([]byte(l.external.String()))
	return "sixty_session_" + hex.EncodeToString(sum[:4])
}

// A session is what its cookie says.
type session struct {
	Ends   time.Time `json:"ends"`
	Name   string    `json:"name,omitempty"` // "" where the token was given
	Groups []string  `json:"groups,omitempty"`
}

// seal signs a value for a purpose, so that a cookie of one kind is none of another.
func (l *login) seal(purpose string, value any) (string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(append(raw, l.sign(purpose, raw)...))
	if len(text) > maxCookie {
		return "", errors.New("the session is too large for a cookie: grant roles to fewer groups")
	}
	return text, nil
}

// unseal reads what seal wrote, and reports whether it did.
func (l *login) unseal(purpose, text string, into any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(sealed) <= sha256.Size {
		return false
	}
	raw, signature := sealed[:len(sealed)-sha256.Size], sealed[len(sealed)-sha256.Size:]
	return hmac.Equal(l.sign(purpose, raw), signature) && json.Unmarshal(raw, into) == nil
}

func (l *login) sign(purpose string, raw []byte) []byte {
	m := hmac.New(sha256.New, l.key)
	m.Write([]byte(purpose + "\x00"))
	m.Write(raw)
	return m.Sum(nil)
}

// session returns who a request's session is of, nil for none.
func (l *login) session(r *http.Request) *access.Principal {
	c, err := r.Cookie(l.name())
	var s session
	if err != nil || !l.unseal("session", c.Value, &s) {
		return nil
	}
	if left := time.Until(s.Ends); left <= 0 || left > sessionTime {
		return nil
	}
	if s.Name == "" {
		if l.token == "" {
			return nil
		}
		return byToken
	}
	if l.provider == nil {
		return nil
	}
	return l.grant(s.Name, s.Groups)
}

// begin begins a session.
func (l *login) begin(w http.ResponseWriter, r *http.Request, s session) error {
	s.Ends = time.Now().Add(sessionTime)
	value, err := l.seal("session", s)
	if err == nil {
		http.SetCookie(w, l.cookie(r, value, sessionTime))
		w.Header().Set("Cache-Control", "no-store")
	}
	return err
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
	case r.URL.Path == callbackPath && r.Method == http.MethodGet && l.provider != nil:
		Limited(l.asking, http.HandlerFunc(l.comeBack)).ServeHTTP(w, r)
	case r.URL.Path == loginPath && r.URL.Query().Has("next") && l.session(r) != nil:
		http.Redirect(w, r, l.prefix()+localPath(r.URL.Query().Get("next")), http.StatusSeeOther)
	case r.URL.Path == loginPath && r.Method == http.MethodGet && l.provider != nil && (l.token == "" || r.URL.Query().Has("oidc")) && l.session(r) == nil:
		Limited(l.asking, http.HandlerFunc(l.leave)).ServeHTTP(w, r)
	case r.URL.Path == loginPath:
		l.show(w, r, http.StatusOK, r.URL.Query().Get("next"), "")
	case r.URL.Path == logoutPath && r.Method == http.MethodPost:
		if p := l.session(r); p != nil {
			l.log(r, p, http.StatusOK)
		}
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
	if l.token == "" || subtle.ConstantTimeCompare([]byte(strings.TrimSpace(r.PostForm.Get("token"))), []byte(l.token)) != 1 {
		l.log(r, &access.Principal{Way: "token"}, http.StatusUnauthorized)
		select {
		case <-time.After(wrongTakes):
			l.show(w, r, http.StatusUnauthorized, next, "That is not the token.")
		case <-r.Context().Done():
		}
		return
	}
	if err := l.begin(w, r, session{}); err != nil {
		Fail(w, http.StatusInternalServerError, err)
		return
	}
	l.log(r, byToken, http.StatusSeeOther)
	http.Redirect(w, r, l.prefix()+localPath(next), http.StatusSeeOther)
}

func (l *login) loginURL(r *http.Request) string {
	return l.prefix() + loginPath + "?next=" + url.QueryEscape(r.URL.RequestURI())
}

func (l *login) prefix() string { return strings.TrimSuffix(l.external.Path, "/") }

// localPath is a path of this server, whatever somebody wrote into a link.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") ||
		strings.ContainsAny(next, "\\\r\n\t") || u.Path == loginPath || u.Path == callbackPath || u.Path == logoutPath {
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
		w.Header().Set("Refresh", "0; url="+l.loginURL(r))
	} else if l.token == "" {
		http.Redirect(w, r, l.loginURL(r), http.StatusSeeOther)
		return true
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
		Token, Provider  bool
	}{
		l.prefix(), localPath(next), told, status == http.StatusUnauthorized && told != "", l.session(r) != nil && told == "", l.token != "", l.provider != nil,
	})
}
