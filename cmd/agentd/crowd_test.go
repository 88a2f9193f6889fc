package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// crowd is people who ask in their private chats. Each question has a token,
// which its answer must repeat.
type crowd struct {
	people []*bottest.Person

	mu    sync.Mutex
	asked []int // questions so far, by person
}

func (w *realWorld) crowd(n int) *crowd {
	c := &crowd{asked: make([]int, n)}
	for i := range n {
		c.people = append(c.people, w.tg.User(int64(1000+i), fmt.Sprint("Person ", i), "en"))
	}
	return c
}

func token(person, question int) string { return fmt.Sprintf("p%dq%d", person, question) }

// tokens finds the tokens of a text. Whole words: half a token of an answer that
// still grows is none.
var tokens = regexp.MustCompile(`\bp[0-9]+q[0-9]+\b`)

// The ends of an answer: what lacks the second is a preview.
const answerBegin, answerEnd = "This answers", "and nothing else."

// ask lets a person ask the next question.
func (c *crowd) ask(person int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.asked[person]
	c.asked[person]++
	c.people[person].Send("Question " + token(person, n))
}

func (c *crowd) askAll() {
	for i := range c.people {
		c.ask(i)
	}
}

// questions gives how many the person asked.
func (c *crowd) questions(person int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[person]
}

// answered says that the person's last question is answered. The answer may
// stand above the question, in the place of a preview.
func (c *crowd) answered(person int) bool {
	chat, want := c.people[person].Chat(), token(person, c.questions(person)-1)
	last, _ := chat.Last()
	for id := last.ID; id > 0; id-- {
		if m, ok := chat.Message(id); ok && m.FromBot && strings.HasSuffix(m.Text, answerEnd) {
			return slices.Contains(tokens.FindAllString(m.Text, -1), want)
		}
	}
	return false
}

// waitAnswered waits until everybody's last question is answered.
func (w *realWorld) waitAnswered(c *crowd) {
	w.Helper()
	i := 0
	defer func() {
		if i < len(c.people) {
			w.Logf("person %d still waits:\n%s", i, seen(c.people[i].Chat()))
		}
	}()
	w.wait("all answers", func() bool {
		for i < len(c.people) && c.answered(i) {
			i++
		}
		return i == len(c.people)
	})
}

// chatState is what a person sees of their questions.
type chatState struct {
	answered []string          // tokens, in the order of the answers
	notices  []bottest.Message // "may be missing", with a button
	strays   []bottest.Message // previews that nobody removed, and anything else
}

func (c *crowd) state(person int) (s chatState) {
	for _, m := range c.people[person].Chat().FromBot() {
		switch {
		case resendData(m) != "":
			s.notices = append(s.notices, m)
		case strings.HasPrefix(m.Text, answerBegin) && strings.HasSuffix(m.Text, answerEnd):
			s.answered = append(s.answered, tokens.FindAllString(m.Text, -1)...)
		default:
			s.strays = append(s.strays, m)
		}
	}
	return s
}

// missing gives the person's questions without an answer, and how many answers
// they lack at least: one may be to several questions that waited together.
func (c *crowd) missing(person int, s chatState) (questions []string, answers int) {
	last := -2
	for n := range c.questions(person) {
		t := token(person, n)
		if slices.Contains(s.answered, t) {
			continue
		}
		if questions = append(questions, t); n > last+1 {
			answers++
		}
		last = n
	}
	return questions, answers
}

// doubled counts the questions that were answered again, and the answers that did.
func (s chatState) doubled() (questions, answers int) {
	seen := map[string]bool{}
	again := false
	for _, t := range s.answered {
		if seen[t] {
			questions++
			if !again {
				answers++
			}
		}
		again = seen[t]
		seen[t] = true
	}
	return questions, answers
}

func resendData(m bottest.Message) string {
	for _, row := range m.Buttons {
		for _, b := range row {
			if strings.HasPrefix(b.Data, "resend:") {
				return b.Data
			}
		}
	}
	return ""
}

// sinceAnswer gives the messages of a prompt that came after the last answer.
func sinceAnswer(r ollamatest.Request) []ollamatest.Message {
	for i, m := range slices.Backward(r.Messages) {
		if m.Role == "assistant" && len(m.ToolCalls) == 0 {
			return r.Messages[i+1:]
		}
	}
	return r.Messages
}

// waitingTokens gives the tokens of the questions that a prompt leaves open.
func waitingTokens(r ollamatest.Request) (out []string) {
	for _, m := range sinceAnswer(r) {
		if m.Role == "user" {
			out = append(out, tokens.FindAllString(m.Content, -1)...)
		}
	}
	return out
}

// answerTokens answers a prompt's open questions.
func answerTokens(r ollamatest.Request) ollamatest.Answer {
	text := fmt.Sprintf("%s %s, %s", answerBegin, strings.Join(waitingTokens(r), ", "), answerEnd)
	return ollamatest.Answer{ollamatest.Text(text)}
}
