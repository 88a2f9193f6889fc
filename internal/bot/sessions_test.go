package bot

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSessions(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		first := r.question(r.ann, ann, "about *cats*")
		r.ann.Send("/new")
		r.pass(time.Second)
		second := r.question(r.ann, ann, "about dogs")
		r.ann.Send("/stop")
		r.pass(5 * time.Second)
		r.ann.Send("/sessions")
		list := r.wantLast(ann, "about *cats*", "about dogs", "now")
		if len(list.Buttons) != 2 {
			t.Fatalf("buttons %v", list.Buttons)
		}

		r.ann.Press(list, fmt.Sprint("session:open:", first.Session))
		r.wantLast(ann, "Back in “about *cats*”")
		if again := r.question(r.ann, ann, "more"); again.Session != first.Session {
			t.Errorf("asked in session %d, want %d", again.Session, first.Session)
		}
		r.ann.Send("/stop")
		r.ann.Send("/sessions")
		list = r.wantLast(ann, "about dogs")
		r.ann.Press(list, fmt.Sprint("session:delete:", second.Session))
		asks := r.wantLast(ann, "Delete “about dogs” for good?")
		r.ann.Press(asks, "session:keep")
		list = r.wantLast(ann, "about dogs", "about *cats*")
		r.ann.Press(list, fmt.Sprint("session:delete:", second.Session))
		r.ann.Press(r.wantLast(ann, "for good?"), fmt.Sprint("session:erase:", second.Session))
		list = r.wantLast(ann, "about *cats*")
		if strings.Contains(list.Text, "dogs") {
			t.Errorf("still there: %q", list.Text)
		}
		for _, action := range []string{"open", "delete"} { // an old button
			if got := r.notice(r.ann, list, fmt.Sprint("session:", action, ":", second.Session)); !strings.Contains(got, "no longer here") {
				t.Errorf("%s of what is gone: %q", action, got)
			}
		}
		// Another chat's session is not to be had by its number.
		theirs := r.question(r.bob, bob, "a secret")
		for _, action := range []string{"open", "delete", "erase"} {
			r.notice(r.ann, list, fmt.Sprint("session:", action, ":", theirs.Session))
		}
		if s, err := r.store.Sessions(r.ctx, theirs.Address, 10); err != nil || len(s) != 1 {
			t.Errorf("bob has %v, %v", s, err)
		}
		// A running one is not deleted.
		running := r.question(r.ann, ann, "cats again")
		if got := r.notice(r.ann, list, fmt.Sprint("session:erase:", running.Session)); !strings.Contains(got, "/stop") {
			t.Errorf("erased while it runs: %q", got)
		}
	})
}

func TestMembersDeleteNothing(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		turn := r.question(r.member, group, "@"+r.srv.Username()+" hi")
		r.member.SendTo(group, "/stop")
		r.pass(time.Second)
		r.member.SendTo(group, "/sessions")
		list := r.last(group)
		if got := r.notice(r.member, list, fmt.Sprint("session:erase:", turn.Session)); !strings.Contains(got, "by name") {
			t.Errorf("a member's press: %q", got)
		}
		if got := r.notice(r.srv.User(3000, "Eve", "en"), list, "models"); got != "That button is not for you." {
			t.Errorf("a member's press of the owner's button: %q", got)
		}
	})
}
