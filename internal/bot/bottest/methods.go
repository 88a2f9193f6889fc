package bottest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

func getMe(s *Server, req *request) (any, error) {
	return map[string]any{"id": s.bot.ID, "is_bot": true, "first_name": s.bot.FirstName, "username": s.bot.Username,
		"can_join_groups": true, "can_read_all_group_messages": false, "supports_inline_queries": false}, nil
}

// generic answers a method that has no effect here by its return type: True,
// or the smallest object. Its chat must exist all the same.
func (s *Server) generic(req *request) (any, error) {
	if req.has("chat_id") && req.entry.field("chat_id").Required {
		if _, err := s.resolve(req.args, "chat_id"); err != nil {
			return nil, err
		}
	}
	return s.spec.minimal(req.entry.Returns), nil
}

// commandKey is where a command list is shown.
type commandKey struct {
	scope string
	chat  int64
	user  int64
	lang  string
}

func commandScope(req *request) commandKey {
	scope := req.obj("scope")
	return commandKey{scope: orDefault(scope.str("type"), "default"), chat: scope.int("chat_id"), user: scope.int("user_id"), lang: req.str("language_code")}
}

// Command is one entry of the command menu.
type Command struct {
	Command     string `json:"command"`
	Description string `json:"description"`
}

var commandName = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

func setMyCommands(s *Server, req *request) (any, error) {
	var list []Command
	for _, v := range req.list("commands") {
		o := args(v.(map[string]any))
		c := Command{Command: strings.TrimPrefix(o.str("command"), "/"), Description: o.str("description")}
		if !commandName.MatchString(c.Command) {
			return nil, badRequest("BOT_COMMAND_INVALID")
		}
		if n := units(c.Description); n < 1 || n > 256 {
			return nil, badRequest("BOT_COMMAND_DESCRIPTION_INVALID")
		}
		list = append(list, c)
	}
	if len(list) > 100 {
		return nil, badRequest("BOT_COMMANDS_TOO_MUCH")
	}
	s.commands[commandScope(req)] = mustJSON(list)
	return true, nil
}

func deleteMyCommands(s *Server, req *request) (any, error) {
	delete(s.commands, commandScope(req))
	return true, nil
}

func getMyCommands(s *Server, req *request) (any, error) {
	if list, ok := s.commands[commandScope(req)]; ok {
		return list, nil
	}
	return []Command{}, nil
}

// Commands is the menu a person with this language sees in a chat: the most
// special list there is.
func (s *Server) Commands(chat int64, lang string) []Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "all_group_chats"
	if chat > 0 {
		kind = "all_private_chats"
	}
	for _, key := range []commandKey{{scope: "chat", chat: chat}, {scope: kind}, {scope: "default"}} {
		for _, key.lang = range []string{lang, ""} {
			if raw, ok := s.commands[key]; ok {
				var list []Command
				if json.Unmarshal(raw, &list) == nil {
					return list
				}
			}
		}
	}
	return nil
}

func getChat(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	full, _ := s.spec.minimal("ChatFullInfo").(map[string]any)
	var plain map[string]any
	if err := json.Unmarshal(mustJSON(c.apiChat), &plain); err != nil {
		return nil, err
	}
	for name, v := range plain {
		full[name] = v
	}
	return full, nil
}

func getChatMember(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	return s.member(c, req.int("user_id"))
}

// member tells a membership; people who wrote are members.
func (s *Server) member(c *chat, id int64) (any, error) {
	user, status := s.bot, c.members[id]
	if id != s.bot.ID {
		p := s.people[id]
		if p == nil {
			return nil, badRequest("user not found")
		}
		user = p.apiUser
		if status == "" {
			status = "left"
			if c.ID == id || slices.ContainsFunc(c.messages, func(m Message) bool { return m.From == id }) {
				status = "member"
			}
		}
	}
	typ := map[string]string{"creator": "ChatMemberOwner", "administrator": "ChatMemberAdministrator", "member": "ChatMemberMember",
		"restricted": "ChatMemberRestricted", "left": "ChatMemberLeft", "kicked": "ChatMemberBanned"}[status]
	out, _ := s.spec.minimal(typ).(map[string]any)
	if out == nil {
		out = map[string]any{}
	}
	out["user"], out["status"] = user, status
	return out, nil
}

// SetMember sets somebody's status in a chat: "creator", "administrator",
// "member", "restricted", "left" or "kicked".
func (v Chat) SetMember(user int64, status string) {
	v.read(func(c *chat) { c.members[user] = status; v.s.notify() })
}

func getChatAdministrators(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	if c.private() {
		return nil, badRequest("there are no administrators in the private chat")
	}
	out := []any{}
	for id, status := range c.members {
		if status == "creator" || status == "administrator" {
			m, err := s.member(c, id)
			if err != nil {
				return nil, err
			}
			out = append(out, m)
		}
	}
	return out, nil
}

func getChatMemberCount(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	return max(2, len(c.members)), nil
}

func leaveChat(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	if c.private() {
		return nil, badRequest("chat member status can't be changed in private chats")
	}
	c.members[s.bot.ID] = "left"
	c.refusal = &apiError{Code: 403, Description: "Forbidden: bot is not a member of the " + c.Type + " chat"}
	return true, nil
}

func createForumTopic(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	if !c.IsForum {
		return nil, badRequest("the chat is not a forum")
	}
	thread := s.addTopic(c, s.bot.ID, req.str("name"))
	return map[string]any{"message_thread_id": thread, "name": req.str("name"), "icon_color": 7322096}, nil
}

// editForumTopic also closes and reopens.
func editForumTopic(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	t := c.topics[int(req.int("message_thread_id"))]
	if t == nil {
		return nil, badRequest("message thread not found")
	}
	t.name = orDefault(req.str("name"), t.name)
	if req.call.Method != "editForumTopic" {
		t.closed = req.call.Method == "closeForumTopic"
	}
	return true, nil
}

func deleteForumTopic(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	thread := int(req.int("message_thread_id"))
	if c.topics[thread] == nil {
		return nil, badRequest("message thread not found")
	}
	delete(c.topics, thread)
	for i := len(c.messages) - 1; i >= 0; i-- {
		if c.messages[i].Thread == thread {
			c.remove(i, s.cfg.Keep)
		}
	}
	return true, nil
}
