package bottest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatAPersonSees(t *testing.T) {
	b := newBench(t, Config{})
	asked := b.mira.Send("question")
	preview := b.send(miraID, "Thin")
	b.must("editMessageText", obj{"chat_id": miraID, "message_id": preview.ID, "text": "Thinking"})
	b.must("deleteMessage", obj{"chat_id": miraID, "message_id": preview.ID})
	b.must("sendMessage", obj{"chat_id": miraID, "text": "answer", "disable_notification": true, "reply_parameters": obj{"message_id": asked.ID}})

	messages := b.mira.Chat().Messages()
	if len(messages) != 2 || messages[0].Text != "question" || messages[1].Text != "answer" {
		t.Fatalf("%+v", messages)
	}
	if m := messages[1]; !m.Silent || m.ReplyTo != asked.ID || !m.FromBot || m.Edits != 0 {
		t.Errorf("%+v", m)
	}
	var kinds []string
	for _, e := range b.mira.Chat().History() {
		kinds = append(kinds, e.Kind+" "+e.Message.Text)
	}
	want := []string{"message question", "message Thin", "edit Thinking", "delete Thinking", "message answer"}
	if !slices.Equal(kinds, want) {
		t.Errorf("%q", kinds)
	}
	b.mira.Chat().Delete(asked.ID)
	b.refused(400, "Bad Request: message to be replied not found", "sendMessage", obj{"chat_id": miraID, "text": "x", "reply_parameters": obj{"message_id": asked.ID}})
	b.must("sendMessage", obj{"chat_id": miraID, "text": "x", "reply_parameters": obj{"message_id": asked.ID, "allow_sending_without_reply": true}})
}

func TestCalls(t *testing.T) {
	b := newBench(t, Config{})
	b.send(miraID, "one")
	b.send(groupID, "two")
	b.refused(400, "Bad Request: chat not found", "sendMessage", obj{"chat_id": 9, "text": "three"})
	b.must("getMe", obj{})
	if got := b.Calls(); len(got) != 4 || got[3].Method != "getMe" || got[3].Seq != 4 {
		t.Errorf("%+v", got)
	}
	if got := b.Calls(Method("sendMessage"), Accepted); len(got) != 2 || got[0].Message == 0 || got[0].Text() != "one" {
		t.Errorf("%+v", got)
	}
	if got := b.Calls(InChat(9)); len(got) != 1 || got[0].Code != 400 || got[0].Error != "Bad Request: chat not found" || got[0].Answered.IsZero() {
		t.Errorf("%+v", got)
	}
}

func TestKeep(t *testing.T) {
	b := newBench(t, Config{Keep: 3})
	for range 10 {
		b.send(miraID, "x")
	}
	if n, h, m := len(b.Calls()), len(b.mira.Chat().History()), len(b.mira.Chat().Messages()); n != 3 || h != 3 || m != 10 {
		t.Errorf("%d calls, %d events, %d messages", n, h, m)
	}
}

func TestWait(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		go func() {
			<-time.After(time.Hour) // virtual
			b.mira.Send("at last")
		}()
		start := time.Now()
		if err := b.Wait(t.Context(), func(*Server) bool { return len(b.mira.Chat().Messages()) == 1 }); err != nil || time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b.send(miraID, "what happened")
		err := b.Wait(ctx, func(*Server) bool { return false })
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `sendMessage chat=100200300 code=200  "what happened"`) {
			t.Errorf("%v", err)
		}
		done := make(chan error, 1)
		go func() { done <- b.Wait(context.Background(), func(*Server) bool { return false }) }()
		synctest.Wait()
		b.Close()
		if err := <-done; err == nil {
			t.Error("Wait outlived the server")
		}
	})
}

func TestDraftsAndActions(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		chat := b.mira.Chat()
		draft := func(text string) { b.must("sendMessageDraft", obj{"chat_id": miraID, "draft_id": 7, "text": text}) }
		draft("Th")
		draft("Thinking")
		if d := chat.Drafts(); len(d) != 1 || d[0].Text != "Thinking" {
			t.Errorf("%+v", d)
		}
		<-time.After(31 * time.Second) // virtual
		if d := chat.Drafts(); len(d) != 0 {
			t.Errorf("outlived 30 s: %+v", d)
		}
		draft("again")
		b.must("sendChatAction", obj{"chat_id": miraID, "action": "typing"})
		if chat.Action() != "typing" {
			t.Error("no action")
		}
		b.send(miraID, "final")
		if len(chat.Drafts()) != 0 || chat.Action() != "" {
			t.Errorf("%+v %q after the message", chat.Drafts(), chat.Action())
		}
		b.must("sendChatAction", obj{"chat_id": miraID, "action": "typing"})
		<-time.After(6 * time.Second)
		if chat.Action() != "" {
			t.Error("an action lasts 5 s")
		}
		b.must("sendChatAction", obj{"chat_id": forumID, "action": "typing", "message_thread_id": 1}) // General
		b.noViolations()
	})
}

func TestOldThings(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		card := b.message(miraID, b.must("sendMessage", obj{"chat_id": miraID, "text": "?",
			"reply_markup": obj{"inline_keyboard": []any{[]any{obj{"text": "Yes", "callback_data": "y"}}}}}).message(t).ID)
		id := b.mira.Press(card, "y")
		<-time.After(20 * time.Minute) // virtual
		b.refused(400, "Bad Request: query is too old and response timeout expired or query ID is invalid", "answerCallbackQuery", obj{"callback_query_id": id})
		<-time.After(48 * time.Hour)
		b.refused(400, "Bad Request: message can't be deleted for everyone", "deleteMessage", obj{"chat_id": miraID, "message_id": card.ID})
	})
}

func TestTopics(t *testing.T) {
	b := newBench(t, Config{})
	send := obj{"chat_id": forumID, "text": "x", "message_thread_id": b.topic}
	if m := b.must("sendMessage", send).message(t); m.Thread != b.topic || !m.IsTopic {
		t.Errorf("%+v", m)
	}
	b.must("closeForumTopic", obj{"chat_id": forumID, "message_thread_id": b.topic})
	b.refused(400, "Bad Request: TOPIC_CLOSED", "sendMessage", send)
	b.must("reopenForumTopic", obj{"chat_id": forumID, "message_thread_id": b.topic})
	b.must("sendMessage", send)
	b.forum.DeleteTopic(b.topic)
	b.refused(400, "Bad Request: message thread not found", "sendMessage", send)
	b.refused(400, "Bad Request: the chat is not a forum", "createForumTopic", obj{"chat_id": groupID, "name": "x"})
	b.noViolations()
}

func TestMembership(t *testing.T) {
	b := newBench(t, Config{})
	b.group.SetMember(miraID, "creator")
	if r := b.must("getChatMember", obj{"chat_id": groupID, "user_id": miraID}); !strings.Contains(string(r.Result), `"status":"creator"`) {
		t.Errorf("%s", r.Result)
	}
	b.refused(400, "Bad Request: user not found", "getChatMember", obj{"chat_id": groupID, "user_id": 4})
	b.refused(400, "Bad Request: there are no administrators in the private chat", "getChatAdministrators", obj{"chat_id": miraID})
	b.must("leaveChat", obj{"chat_id": groupID})
	b.refused(403, "Forbidden: bot is not a member of the supergroup chat", "sendMessage", obj{"chat_id": groupID, "text": "x"})
}

func TestCommandMenu(t *testing.T) {
	b := newBench(t, Config{})
	set := func(name string, more obj) {
		b.must("setMyCommands", with(obj{"commands": []any{obj{"command": name, "description": "d"}}}, more))
	}
	set("default", nil)
	set("german", obj{"language_code": "de"})
	set("private", obj{"scope": obj{"type": "all_private_chats"}})
	set("here", obj{"scope": obj{"type": "chat", "chat_id": 5}})
	for _, c := range []struct {
		chat int64
		lang string
		want string
	}{{-1, "en", "default"}, {-1, "de", "german"}, {7, "en", "private"}, {5, "de", "here"}} {
		if got := b.Commands(c.chat, c.lang); len(got) != 1 || got[0].Command != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	b.must("deleteMyCommands", obj{})
	if got := b.Commands(-1, "en"); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestDetectedEntities(t *testing.T) {
	b := newBench(t, Config{})
	for text, want := range map[string][]string{
		"@agent_test_bot hi":               {"mention @agent_test_bot"},
		"😀 /start@agent_test_bot":          {"bot_command /start@agent_test_bot"},
		"mail x@agent_test_bot.example":    nil,
		"mail x@bot.example":               {"email x@bot.example"},
		"see https://example.org/a?b=1.":   {"url https://example.org/a?b=1"},
		"in /usr/bin and a/b":              nil,
		"#tag и #метка":                    {"hashtag #tag", "hashtag #метка"},
		"/new @agent_test_bot2":            {"bot_command /new", "mention @agent_test_bot2"},
		"https://example.org/@name/status": {"url https://example.org/@name/status"},
	} {
		var got []string
		m := b.mira.Send(text)
		for _, e := range m.Entities {
			got = append(got, e.Type+" "+cut(text, e))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestPersonMistakesPanic(t *testing.T) {
	b := newBench(t, Config{})
	for name, f := range map[string]func(){
		"chat":    func() { b.mira.SendTo(1, "x") },
		"message": func() { b.mira.React(Message{Chat: miraID, ID: 9}, "👍") },
		"button":  func() { b.mira.Press(b.mira.Send("x"), "y") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	b.send(miraID, "the server still works")
}
