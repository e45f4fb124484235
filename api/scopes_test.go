package api

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
)

// A keyring is the tokens that a test gives away: their names are the tokens.
type keyring struct {
	mu     sync.Mutex
	grants map[[sha256.Size]byte]Scope
}

func (k *keyring) grant(token string, s Scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grants == nil {
		k.grants = map[[sha256.Size]byte]Scope{}
	}
	k.grants[hashOf(token)] = s
}

func (k *keyring) revoke(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.grants, hashOf(token))
}

func (k *keyring) look(hash [sha256.Size]byte) (Scope, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.grants[hash]
	return s, ok
}

// each of the scopes that can be given away, by its name as token.
var eachScope = map[string]Scope{
	"read": ScopeRead, "write": ScopeWrite, "approve": ScopeApprove, "admin": ScopeAdmin, "write,approve": ScopeWrite | ScopeApprove, "none": 0,
}

func scoped(t *testing.T) (*door, *keyring) {
	k := &keyring{}
	for name, s := range eachScope {
		k.grant(name, s)
	}
	return open(t, func(o *Options) { o.Grants = k.look }), k
}

func token(name string) edit { return header("Authorization", "Bearer "+name) }

// Every method asks for its scope before it looks at anything else, on both doors.
func TestEveryMethodNeedsItsScope(t *testing.T) {
	d, _ := scoped(t)
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	defer stop()
	for name, s := range eachScope {
		c := d.mustDialWS("ws://"+tcp, bearer(name))
		if s != 0 {
			c.hello("tester", "")
		}
		for _, m := range methods {
			may := s.Allows(m.scope())
			if m.verb != "" {
				a := d.do(m.verb, aboutNobody(m.path), bodyOf(m), token(name), header("Accept", jsonType))
				if got := a.status != http.StatusForbidden; got != may {
					t.Errorf("%s: %s with %s was answered with %d %s", m.name, m.path, name, a.status, a.body)
				}
				if how := a.header.Get("WWW-Authenticate"); !may && !strings.Contains(how, `scope="`+strings.ReplaceAll(m.scope().String(), ",", " ")) {
					t.Errorf("%s: the refusal says %q", m.name, how)
				}
			}
			if m.call != nil && !may && s != 0 { // without any it cannot even introduce itself
				if e := c.refused(m.name, `{"threadId":"nonsense"}`); !strings.Contains(e.Message, "needs the scope "+m.scope().String()) {
					t.Errorf("%s with %s: %+v", m.name, name, e)
				}
			}
		}
		c.close()
	}
}

// aboutNobody is a path about things that are not there.
func aboutNobody(path string) string {
	for strings.Contains(path, "{") {
		from, to := strings.Index(path, "{"), strings.Index(path, "}")
		path = path[:from] + url.PathEscape(uuid.NewString()) + path[to+1:]
	}
	return path
}

func bodyOf(m method) string {
	if m.verb == http.MethodPost {
		return `{}`
	}
	return ""
}

func TestScopesIncludeWhatTheyNeed(t *testing.T) {
	for _, c := range []struct {
		has, need Scope
		want      bool
	}{
		{ScopeWrite, ScopeRead, true},
		{ScopeApprove, ScopeRead, true},
		{ScopeRead, ScopeWrite, false},
		{ScopeWrite, ScopeApprove, false},
		{ScopeApprove, ScopeWrite, false},
		{ScopeAdmin, AllScopes, true},
		{ScopeRead | ScopeWrite | ScopeApprove, ScopeAdmin, false},
		{ScopeWrite, ScopeWrite | ScopeApprove, false},
		{0, ScopeRead, false},
	} {
		if got := c.has.Allows(c.need); got != c.want {
			t.Errorf("%s allows %s: %t", c.has, c.need, got)
		}
	}
	for s := Scope(1); s <= AllScopes; s++ {
		if got, err := ParseScope(s.String()); err != nil || got != s {
			t.Errorf("%s reads as %s, %v", s, got, err)
		}
	}
	for _, bad := range []string{"", "reed", "read,", "READ", "read;write"} {
		if s, err := ParseScope(bad); err == nil || !strings.Contains(err.Error(), "read, write, approve, admin") {
			t.Errorf("%q reads as %s, %v", bad, s, err)
		}
	}
}

// Who may not approve sets nothing that lets an agent go on without asking.
func TestLooseningNeedsTheScopeApprove(t *testing.T) {
	d, _ := scoped(t)
	thread := d.newThread("offline")
	for _, set := range []string{`"approvalPolicy":"never"`, `"sandbox":"danger-full-access"`} {
		p := d.problem(403, "POST", "/v1/threads", `{"modelProvider":"offline","cwd":"/w",`+set+`}`, token("write"))
		if !strings.Contains(p.Detail, "needs the scope approve") {
			t.Errorf("%s: %+v", set, p)
		}
		d.into(d.do("POST", "/v1/threads", `{"modelProvider":"offline","cwd":"/w",`+set+`}`, token("write,approve")), 201, new(ThreadStartResult))
	}
	d.problem(403, "POST", "/v1/threads/"+thread+"/settings", `{"approvalPolicy":"never"}`, token("write"))
	d.problem(403, "POST", "/v1/threads/"+thread+"/settings", `{"sandboxPolicy":{"type":"dangerFullAccess"}}`, token("write"))
	d.into(d.do("POST", "/v1/threads/"+thread+"/settings", `{"effort":"high"}`, token("write")), 200, new(Empty))
}

// Who may not approve is not asked, and an answer of theirs counts as little as one
// that nobody asked for; the request waits for somebody who may.
func TestWhoMayNotApproveIsNotAsked(t *testing.T) {
	d, _ := scoped(t)
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	defer stop()
	may := d.mustDialWS("ws://"+tcp, bearer(testToken))
	may.hello("may", "")
	thread := may.start("puppet")
	mayNot := d.mustDialWS("ws://"+tcp, bearer("write"))
	mayNot.hello("may not", "")
	mayNot.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
	q := d.asking(may, thread)
	mayNot.until("serverRequest/created")
	mayNot.respond(q, `{"decision":"accept"}`)
	if e := mayNot.refused("thread/request/answer", fmt.Sprintf(`{"threadId":%q,"requestId":%s,"decision":"accept"}`, thread, q.ID)); !strings.Contains(e.Message, "approve") {
		t.Errorf("answered with %+v", e)
	}
	for _, f := range mayNot.seen {
		if f.Method == approval {
			t.Errorf("it was asked: %s", f.raw)
		}
	}
	may.respond(q, `{"decision":"decline"}`)
	if by := may.resolvedBy(); by != "may" {
		t.Errorf("it was answered by %q", by)
	}
	mayNot.close()
	may.close()
}

// A scope is the token's. What a client says of itself is no part of it.
func TestAClientCannotClaimScopes(t *testing.T) {
	d, _ := scoped(t)
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	defer stop()
	c := d.mustDialWS("ws://"+tcp, bearer("read"))
	c.must("initialize", `{"clientInfo":{"name":"x","version":"1"},"capabilities":{"scopes":["admin","write"],"plimsoll":{"scopes":"admin"}},"scopes":["admin"]}`, nil)
	c.write(`{"method":"initialized"}`)
	if e := c.refused("thread/start", `{"modelProvider":"offline"}`); !strings.Contains(e.Message, "needs the scope write") {
		t.Errorf("answered with %+v", e)
	}
	c.must("thread/list", `{}`, nil)
	c.close()
}

// A token that was taken back, or allows something else now, ends what it opened.
func TestATokenThatIsTakenBackEndsItsConnections(t *testing.T) {
	d, k := scoped(t)
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	defer stop()
	gone := d.mustDialWS("ws://"+tcp, bearer("read"))
	less := d.mustDialWS("ws://"+tcp, bearer("write"))
	stays := d.mustDialWS("ws://"+tcp, bearer(testToken))
	for _, c := range []*caller{gone, less, stays} {
		c.hello("x", "")
	}
	k.revoke("read")
	k.grant("write", ScopeRead)
	for _, c := range []*caller{gone, less} {
		if e := c.ended(); e.Status != statusUnauthorized {
			t.Errorf("closed with %v", e)
		}
	}
	d.problem(401, "GET", "/v1/threads", "", token("read"))
	d.problem(403, "POST", "/v1/threads", `{}`, token("write"))
	stays.must("thread/list", `{}`, nil)
	stays.close()
}
