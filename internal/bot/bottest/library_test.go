package bottest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	tg "github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
)

// library drives the server with go-telegram/bot, which sends multipart.
func library(t *testing.T, b *bench, options ...tg.Option) *tg.Bot {
	t.Helper()
	client, err := tg.New(b.Token(), append(options, tg.WithServerURL("http://api"), tg.WithHTTPClient(50e9, b.http))...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestLibrarySends(t *testing.T) {
	b := newBench(t, Config{})
	client := library(t, b)
	ctx := t.Context()
	asked := b.mira.Send("please")
	m, err := client.SendMessage(ctx, &tg.SendMessageParams{
		ChatID: miraID, Text: "Привет 😀 мир", DisableNotification: true,
		Entities:           []models.MessageEntity{{Type: "bold", Offset: 10, Length: 3}},
		ReplyParameters:    &models.ReplyParameters{MessageID: asked.ID},
		LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: tg.True()},
		ReplyMarkup:        models.InlineKeyboardMarkup{InlineKeyboard: [][]models.InlineKeyboardButton{{{Text: "Yes", CallbackData: "ok:1"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.Text != "Привет 😀 мир" || m.From.ID != DefaultBotID || m.ReplyToMessage.Text != "please" || m.ReplyMarkup.InlineKeyboard[0][0].CallbackData != "ok:1" {
		t.Errorf("%+v", m)
	}
	seen := b.message(miraID, m.ID)
	if !seen.Silent || seen.ReplyTo != asked.ID || seen.Preview || seen.Buttons[0][0].Data != "ok:1" || seen.Entities[0].Type != "bold" {
		t.Errorf("%+v", seen)
	}
	if m, err = client.EditMessageText(ctx, &tg.EditMessageTextParams{ChatID: miraID, MessageID: m.ID, Text: "edited"}); err != nil || m.Text != "edited" {
		t.Fatalf("%+v %v", m, err)
	}
	if seen = b.message(miraID, m.ID); seen.Edits != 1 || len(seen.Buttons) != 0 {
		t.Errorf("%+v", seen)
	}
	if ok, err := client.SetMessageReaction(ctx, &tg.SetMessageReactionParams{ChatID: miraID, MessageID: asked.ID,
		Reaction: []models.ReactionType{{Type: models.ReactionTypeTypeEmoji, ReactionTypeEmoji: &models.ReactionTypeEmoji{Type: models.ReactionTypeTypeEmoji, Emoji: "👍"}}}}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got := b.message(miraID, asked.ID).Reactions[DefaultBotID]; len(got) != 1 || got[0] != "👍" {
		t.Errorf("%v", got)
	}
	if ok, err := client.DeleteMessage(ctx, &tg.DeleteMessageParams{ChatID: miraID, MessageID: m.ID}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if left := b.mira.Chat().FromBot(); len(left) != 0 {
		t.Errorf("%+v", left)
	}
	b.noViolations()
}

func TestLibraryFiles(t *testing.T) {
	b := newBench(t, Config{})
	client := library(t, b)
	png, err := os.ReadFile("testdata/img_ok_64x48.png")
	if err != nil {
		t.Fatal(err)
	}
	m, err := client.SendPhoto(t.Context(), &tg.SendPhotoParams{ChatID: miraID, Caption: "a photo", Photo: &models.InputFileUpload{Filename: "p.png", Data: bytes.NewReader(png)}})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Photo) != 1 || m.Photo[0].Width != 64 || m.Photo[0].Height != 48 || m.Caption != "a photo" {
		t.Errorf("%+v", m)
	}
	album, err := client.SendMediaGroup(t.Context(), &tg.SendMediaGroupParams{ChatID: miraID, Media: []models.InputMedia{
		&models.InputMediaPhoto{Media: "attach://one", MediaAttachment: bytes.NewReader(png), Caption: "first"},
		&models.InputMediaPhoto{Media: m.Photo[0].FileID},
	}})
	if err != nil || len(album) != 2 || album[0].MediaGroupID == "" || album[0].MediaGroupID != album[1].MediaGroupID {
		t.Fatalf("%+v %v", album, err)
	}
	doc, err := client.SendDocument(t.Context(), &tg.SendDocumentParams{ChatID: miraID, Document: &models.InputFileUpload{Filename: "a.txt", Data: strings.NewReader("content")}})
	if err != nil || doc.Document.FileName != "a.txt" || doc.Document.FileSize != 7 {
		t.Fatalf("%+v %v", doc, err)
	}
	f, err := client.GetFile(t.Context(), &tg.GetFileParams{FileID: doc.Document.FileID})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.download(client.FileDownloadLink(f)); got != "content" {
		t.Errorf("%q", got)
	}
	b.noViolations()
}

func TestLibraryErrors(t *testing.T) {
	b := newBench(t, Config{})
	client := library(t, b)
	b.Fault(Rule{Method: "sendMessage", RetryAfter: 3})
	b.Fault(Rule{Method: "sendMessage", MigrateTo: -100123})
	send := func() error {
		_, err := client.SendMessage(t.Context(), &tg.SendMessageParams{ChatID: miraID, Text: "x"})
		return err
	}
	var flood *tg.TooManyRequestsError
	if err := send(); !errors.As(err, &flood) || flood.RetryAfter != 3 {
		t.Errorf("%v", err)
	}
	var migrate *tg.MigrateError
	if err := send(); !errors.As(err, &migrate) || migrate.MigrateToChatID != -100123 {
		t.Errorf("%v", err)
	}
	b.mira.Block()
	if err := send(); !errors.Is(err, tg.ErrorForbidden) {
		t.Errorf("%v", err)
	}
	b.mira.Unblock()
	if err := send(); err != nil {
		t.Error(err)
	}
}

// The library's own polling loop gets every update of every kind that a
// person can make.
func TestLibraryPolls(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		got := make(chan *models.Update, 20)
		client := library(t, b, tg.WithDefaultHandler(func(_ context.Context, _ *tg.Bot, u *models.Update) { got <- u }),
			tg.WithNotAsyncHandlers(), tg.WithAllowedUpdates(tg.AllowedUpdates{"message", "edited_message", "callback_query", "message_reaction", "my_chat_member"}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { client.Start(ctx); close(done) }()
		synctest.Wait()

		m := b.mira.SendTo(groupID, "/status@agent_test_bot now")
		if u := <-got; u.Message.Entities[0].Type != "bot_command" || u.Message.Entities[0].Length != 22 || u.Message.Chat.Type != "supergroup" {
			t.Errorf("%+v", u.Message)
		}
		b.mira.Edit(m, "changed")
		if u := <-got; u.EditedMessage.Text != "changed" || u.EditedMessage.EditDate == 0 {
			t.Errorf("%+v", u.EditedMessage)
		}
		b.mira.React(m, "🔥")
		if u := <-got; u.MessageReaction.NewReaction[0].ReactionTypeEmoji.Emoji != "🔥" {
			t.Errorf("%+v", u.MessageReaction)
		}
		card := b.message(miraID, b.must("sendMessage", obj{"chat_id": miraID, "text": "Run?",
			"reply_markup": obj{"inline_keyboard": []any{[]any{obj{"text": "Yes", "callback_data": "y"}}}}}).message(t).ID)
		id := b.mira.Press(card, "y")
		u := <-got
		if u.CallbackQuery.ID != id || u.CallbackQuery.Data != "y" || u.CallbackQuery.Message.Message.Text != "Run?" {
			t.Errorf("%+v", u.CallbackQuery)
		}
		if _, err := client.AnswerCallbackQuery(ctx, &tg.AnswerCallbackQueryParams{CallbackQueryID: id, Text: "Done"}); err != nil {
			t.Error(err)
		}
		if c, _ := b.Callback(id); !c.Answered || c.Text != "Done" {
			t.Errorf("%+v", c)
		}
		b.mira.Say(Say{Chat: forumID, Thread: b.topic, Text: "in a topic"})
		if u := <-got; u.Message.MessageThreadID != b.topic || !u.Message.IsTopicMessage || !u.Message.Chat.IsForum {
			t.Errorf("%+v", u.Message)
		}
		b.mira.SendFile("notes.md", []byte("# Notes"), "read this")
		if u := <-got; u.Message.Document.FileName != "notes.md" || u.Message.Caption != "read this" {
			t.Errorf("%+v", u.Message)
		}
		b.mira.Say(Say{Kind: "voice", File: &File{Data: []byte("ogg")}})
		if u := <-got; u.Message.Voice == nil {
			t.Errorf("%+v", u.Message)
		}
		b.mira.Say(Say{Kind: "photo", File: &File{Data: []byte("jpg")}, Forward: true})
		if u := <-got; len(u.Message.Photo) != 1 || u.Message.ForwardOrigin == nil {
			t.Errorf("%+v", u.Message)
		}
		b.mira.Say(Say{Fields: obj{"location": obj{"latitude": 1.5, "longitude": 2.5}}})
		if u := <-got; u.Message.Location == nil || u.Message.Location.Latitude != 1.5 {
			t.Errorf("%+v", u.Message)
		}
		b.mira.Block()
		if u := <-got; u.MyChatMember.NewChatMember.Type != models.ChatMemberTypeBanned {
			t.Errorf("%+v", u.MyChatMember)
		}
		b.group.Migrate(-1009)
		if u := <-got; u.Message.MigrateToChatID != -1009 {
			t.Errorf("%+v", u.Message)
		}
		if u := <-got; u.Message.MigrateFromChatID != groupID {
			t.Errorf("%+v", u.Message)
		}
		cancel()
		<-done
		b.noViolations()
	})
}
