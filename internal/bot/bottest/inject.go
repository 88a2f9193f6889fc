package bottest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Inject queues raw updates: one object, a list, or a whole getUpdates
// answer. They reach the bot unchanged, whatever allowed_updates says, except
// that an update_id of 0 (or none) is given the next id. What they tell of
// chats, people, messages, topics, files and button presses the server learns,
// so that the bot can answer. It returns the update ids.
func (s *Server) Inject(raw []byte) ([]int64, error) {
	list, err := splitUpdates(raw)
	if err != nil {
		return nil, fmt.Errorf("bottest: inject: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []int64
	for _, fields := range list {
		var id int64
		if given, ok := fields["update_id"]; ok {
			if err := json.Unmarshal(given, &id); err != nil {
				return ids, fmt.Errorf("bottest: inject: update_id: %w", err)
			}
		}
		if id == 0 {
			id = s.updates.next
		}
		fields["update_id"] = mustJSON(id)
		s.updates.next = max(s.updates.next, id+1)
		for kind, body := range fields {
			if err := s.learn(kind, body); err != nil {
				return ids, fmt.Errorf("bottest: inject: %s: %w", kind, err)
			}
		}
		s.updates.add(id, mustJSON(fields))
		ids = append(ids, id)
	}
	s.notify()
	return ids, nil
}

func splitUpdates(raw []byte) ([]map[string]json.RawMessage, error) {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		var list []map[string]json.RawMessage
		err := json.Unmarshal(raw, &list)
		return list, err
	}
	var one map[string]json.RawMessage
	if err := json.Unmarshal(raw, &one); err != nil {
		return nil, err
	}
	if result, isAnswer := one["result"]; isAnswer {
		return splitUpdates(result)
	}
	return []map[string]json.RawMessage{one}, nil
}

// seen is what the server learns from an injected message.
type seen struct {
	apiMessage
	MigrateTo   int64           `json:"migrate_to_chat_id"`
	TopicOpened json.RawMessage `json:"forum_topic_created"`
}

// learn takes in one field of an update.
func (s *Server) learn(kind string, body json.RawMessage) error {
	switch {
	case strings.HasSuffix(kind, "message") || strings.HasSuffix(kind, "channel_post"):
		return s.learnMessage(body, strings.HasPrefix(kind, "edited_"))
	case kind == "callback_query":
		var q struct {
			ID      string
			From    apiUser
			Message json.RawMessage
			Data    string
		}
		if err := json.Unmarshal(body, &q); err != nil {
			return err
		}
		s.addPerson(q.From)
		s.callbacks[q.ID] = &Callback{ID: q.ID, From: q.From.ID, Data: q.Data, At: time.Now()}
		if q.Message != nil {
			return s.learnMessage(q.Message, false)
		}
	case kind == "my_chat_member":
		return s.learnMembership(body)
	}
	return nil
}

func (s *Server) learnMembership(body json.RawMessage) error {
	var u struct {
		Chat apiChat
		New  struct{ Status string } `json:"new_chat_member"`
	}
	if err := json.Unmarshal(body, &u); err != nil {
		return err
	}
	c := s.addChat(u.Chat)
	c.members[s.bot.ID] = u.New.Status
	text := ""
	switch {
	case u.New.Status == "kicked" && c.private():
		text = "bot was blocked by the user"
	case u.New.Status == "kicked":
		text = "bot was kicked from the " + c.Type + " chat"
	case u.New.Status == "left":
		text = "bot is not a member of the " + c.Type + " chat"
	}
	if c.refusal = nil; text != "" {
		c.refusal = &apiError{Code: 403, Description: "Forbidden: " + text}
	}
	return nil
}

func (s *Server) learnMessage(body json.RawMessage, edited bool) error {
	var in seen
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	if in.Chat.ID == 0 || in.ID == 0 {
		return nil // nothing that could be answered
	}
	c := s.addChat(in.Chat)
	m := Message{ID: in.ID, Thread: in.Thread, At: time.Unix(in.Date, 0), Text: in.Text, Entities: in.Entities, Kind: "text", Group: in.MediaGroup, raw: body}
	if in.Caption != "" {
		m.Text, m.Entities = in.Caption, in.CaptionEntities
	}
	if in.From != nil {
		m.From, m.FromBot = in.From.ID, in.From.ID == s.bot.ID
		if !m.FromBot {
			s.addPerson(*in.From)
		}
	}
	if in.ReplyTo != nil {
		if err := s.learnMessage(in.ReplyTo, false); err != nil {
			return err
		}
		var reply seen
		if err := json.Unmarshal(in.ReplyTo, &reply); err == nil {
			m.ReplyTo = reply.ID
		}
	}
	if in.ReplyMarkup != nil {
		var err error
		if m.Buttons, err = learnButtons(in.ReplyMarkup); err != nil {
			return err
		}
		m.markup = in.ReplyMarkup
	}
	if in.Thread > 1 && (in.IsTopic || in.TopicOpened != nil) && c.topics[in.Thread] == nil {
		c.topics[in.Thread] = &topic{}
	}
	if in.MigrateTo != 0 {
		c.migrated = in.MigrateTo
		s.addChat(apiChat{ID: in.MigrateTo, Type: "supergroup", Title: c.Title})
	}
	var all map[string]any
	if err := json.Unmarshal(body, &all); err != nil {
		return err
	}
	s.learnFiles(all)
	if edited {
		if i, found := c.find(m.ID); found {
			m.Edits = c.messages[i].Edits + 1
			m.Edited = time.Unix(in.EditDate, 0)
			c.replace(m, "edit", s.cfg.Keep)
			return nil
		}
	}
	if _, known := c.find(m.ID); !known {
		c.add(m, s.cfg.Keep)
	}
	return nil
}

func learnButtons(markup json.RawMessage) ([][]Button, error) {
	var keyboard struct {
		Rows [][]Button `json:"inline_keyboard"`
	}
	err := json.Unmarshal(markup, &keyboard)
	return keyboard.Rows, err
}

// learnFiles finds every object that has a file_id.
func (s *Server) learnFiles(v any) {
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			s.learnFiles(e)
		}
	case map[string]any:
		if id, ok := x["file_id"].(string); ok && s.files[id] == nil {
			name, _ := x["file_name"].(string)
			size, _ := x["file_size"].(float64)
			kind, _ := x["mime_type"].(string)
			s.fileSeq++
			s.files[id] = &File{ID: id, Path: fmt.Sprintf("files/file_%d", s.fileSeq), Name: name, MIME: kind, Size: int64(size)}
		}
		for _, e := range x {
			s.learnFiles(e)
		}
	}
}

// SetFile gives the content of a file that an injected update only named.
func (s *Server) SetFile(fileID string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[fileID]
	if f == nil {
		s.fileSeq++
		f = &File{ID: fileID, Path: fmt.Sprintf("files/file_%d", s.fileSeq)}
	}
	copied := *f
	copied.Data, copied.Size = data, max(copied.Size, int64(len(data)))
	s.files[fileID] = &copied
}
