package bot

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestStrangers(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		eve := r.srv.User(2001, "Eve *Evil* [x](http://e.example)", "ru")
		eve.Send("hello")
		eve.Send("hello?")
		r.pass(time.Minute)
		if got := r.texts(2001); len(got) != 1 || !strings.Contains(got[0], "2001") || !strings.Contains(got[0], "Здравствуйте") {
			t.Fatalf("the stranger sees %q", got)
		}
		card := r.wantLast(ann, "Eve *Evil* [x](http://e.example) (id 2001)")
		r.pass(25 * time.Hour)
		eve.Send("and now?")
		r.pass(time.Minute)
		if got := r.texts(2001); len(got) != 2 {
			t.Errorf("a day later the stranger sees %q", got)
		}
		if got := r.texts(ann); len(got) != 1 {
			t.Errorf("the owner got %q", got)
		}

		// Nobody but the owner decides.
		if got := r.notice(r.bob, card, "person:allow:2001"); got != "That button is not for you." {
			t.Errorf("bob's press: %q", got)
		}
		r.notice(eve, card, "person:allow:2001")
		r.ann.Press(card, "person:allow:2001")
		m := r.wantLast(ann, "may talk to me now")
		if m.ID != card.ID || len(m.Buttons) != 0 {
			t.Errorf("the card is now %+v", m)
		}
		r.wantLast(2001, "Теперь вы можете говорить со мной")
		r.question(eve, 2001, "hi")
		// Twice, late and after a restart: it counts once.
		sent := len(r.texts(2001))
		r.stop()
		r.begin()
		if got := r.notice(r.ann, card, "person:allow:2001"); got != "Done." {
			t.Errorf("the second press: %q", got)
		}
		r.silent(2001, sent)

		r.ann.Send("/users")
		list := r.wantLast(ann, "Eve *Evil*", "allowed by you", "1002", "by configuration")
		r.ann.Press(list, "person:revoke:2001")
		r.wantLast(ann, "no longer")
		eve.Send("still?")
		r.pass(time.Minute)
		if _, ok, err := r.disk.Claim(r.ctx, time.Now(), composeTest); ok || err != nil {
			t.Errorf("a revoked person's question: %v, %v", ok, err)
		}
		if got := r.texts(2001); len(got) != sent {
			t.Errorf("within a day of the last line: %q", got)
		}
		// The configuration is not overruled, and the owner cannot lock themselves out.
		r.notice(r.ann, list, "person:block:1002")
		r.wantLast(ann, "TELEGRAM_ALLOWED_USERS")
		if got := r.notice(r.ann, list, "person:block:1001"); got != "That button no longer does anything." {
			t.Errorf("locking oneself out: %q", got)
		}
	})
}

func TestBlockedStrangers(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		eve := r.srv.User(2001, "Eve", "en")
		eve.Send("hello")
		r.ann.Press(r.last(ann), "person:block:2001")
		r.wantLast(ann, "blocked")
		r.pass(25 * time.Hour)
		eve.Send("please")
		r.silent(2001, 1)
		r.ann.Send("/users")
		r.ann.Press(r.wantLast(ann, "blocked"), "person:allow:2001")
		r.wantLast(2001, "You may talk to me now")
	})
}

func TestManyStrangers(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		for i := range int64(30) {
			r.srv.User(5000+i, fmt.Sprint("S", i), "en").Send("hi")
		}
		r.pass(5 * time.Minute)
		lines := 0
		for i := range int64(30) {
			lines += len(r.texts(5000 + i))
		}
		if cards := len(r.texts(ann)); lines != 20 || cards != 5 {
			t.Errorf("%d polite lines and %d cards, want 20 and 5", lines, cards)
		}
	})
}

func TestStrangersInGroupsAndEdits(t *testing.T) {
	withReception(t, func(c *Config) { c.Allowed = []int64{ann} }, func(r *reception) {
		at := "@" + r.srv.Username()
		m := r.bob.SendTo(group, at+" hi")
		r.bob.SendTo(group, "/status")
		r.bob.Edit(m, at+" hi there")
		r.silent(group, 0)
		r.silent(ann, 0)
		p := r.bob.Send("x")
		r.pass(time.Second)
		r.bob.Edit(p, "y")
		r.silent(bob, 1)
	})
}

func TestPairing(t *testing.T) {
	unowned := func(c *Config) { c.Allowed = []int64{group} }
	withReception(t, unowned, func(r *reception) {
		code, err := r.bot.StartPairing(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		r.bob.SendTo(group, code) // not in public
		r.silent(group, 0)
		r.bob.Send("/start AAAA-AAAA-AAAA-AAA0")
		r.wantLast(bob, "agentd pair")
		r.bob.Send("/start " + strings.ToLower(code))
		r.wantLast(bob, "Welcome, Bob!", "owner")
		if r.bot.ownerID() != bob {
			t.Errorf("the owner is %d", r.bot.ownerID())
		}
		r.bob.Send("/users")
		r.wantLast(bob, "owner")
		r.ann.Send(code) // used up
		r.wantLast(ann, "people I know")
		if _, err := r.bot.StartPairing(r.ctx); !errors.Is(err, ErrOwned) {
			t.Errorf("another owner: %v", err)
		}
	})
	withReception(t, unowned, func(r *reception) { // too late
		code, err := r.bot.StartPairing(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		r.pass(10 * time.Minute)
		r.bob.Send(code)
		r.wantLast(bob, "agentd pair")
		if r.bot.ownerID() != 0 {
			t.Error("an old code paired")
		}
	})
	withReception(t, unowned, func(r *reception) { // guessed too often
		code, err := r.bot.StartPairing(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			r.bob.Send(fmt.Sprintf("AAAA-AAAA-AAAA-AAA%d", i))
			r.pass(2 * time.Second)
		}
		if got := r.texts(bob); len(got) != 5 {
			t.Errorf("wrong codes were answered %d times, want 5", len(got))
		}
		r.ann.Send(code)
		r.pass(time.Minute)
		if r.bot.ownerID() != 0 {
			t.Error("paired while barred")
		}
		r.pass(10 * time.Minute)
		if code, err = r.bot.StartPairing(r.ctx); err != nil {
			t.Fatal(err)
		}
		r.ann.Send(code)
		r.wantLast(ann, "Welcome, Ann!")
	})
	withReception(t, func(c *Config) { c.Allowed, c.Everybody = nil, true }, func(r *reception) {
		r.bob.Send("/users")
		r.wantLast(bob, "agentd pair")
		code, err := r.bot.StartPairing(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		r.bob.Send(code)
		r.wantLast(bob, "Welcome, Bob!")
		r.ann.Send("/users") // everybody talks, one decides
		r.wantLast(ann, "Only the owner")
	})
}

func TestOwnerLanguage(t *testing.T) {
	withReception(t, func(c *Config) { c.Owner = olga }, func(r *reception) {
		r.olga.Send("/start")
		r.pass(time.Second)
		r.srv.User(2001, "Eve", "en").Send("hello")
		r.wantLast(2001, "I have asked my owner")
		r.wantLast(olga, "хочет со мной поговорить")
	})
}

// Wherever a handler dies, the next process says what was to be said, once.
func TestDeathInAHandler(t *testing.T) {
	for _, verb := range []string{"Greet", "SetPerson", "Pair", "SetSetting", "Handled"} {
		for _, committed := range []bool{false, true} {
			t.Run(fmt.Sprint(verb, " ", committed), func(t *testing.T) {
				withReception(t, func(c *Config) { c.Allowed = []int64{group} }, func(r *reception) {
					// dying breaks every transaction from the chosen one on, until the restart
					var armed, dead bool
					r.probe = func(v string, c bool) error {
						if armed && v == verb && c == committed {
							dead = true
						}
						if dead {
							return errors.New("killed")
						}
						return nil
					}
					act := func(what func()) {
						armed = true
						what()
						r.pass(10 * time.Second)
						r.stop()
						armed, dead = false, false
						r.begin()
						r.pass(10 * time.Second)
					}
					code, err := r.bot.StartPairing(r.ctx)
					if err != nil {
						t.Fatal(err)
					}
					act(func() { r.ann.Send(code) })
					r.wantLast(ann, "Welcome, Ann!")
					r.want(ann, r.texts(ann)[0])
					act(func() { r.srv.User(2001, "Eve", "en").Send("hello") })
					card := r.wantLast(ann, "Eve (id 2001) would like")
					if verb != "Greet" && len(r.texts(2001)) != 1 {
						t.Errorf("the stranger sees %q", r.texts(2001))
					}
					act(func() { r.ann.Press(card, "person:allow:2001") })
					if m := r.wantLast(ann, "Eve (id 2001) may talk to me now"); m.ID != card.ID {
						t.Error("the card was not edited")
					}
					r.wantLast(2001, "You may talk to me now")
					if got := r.texts(2001); len(got) > 2 {
						t.Errorf("the person sees %q", got)
					}
				})
			})
		}
	}
}
