package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// These benchmarks measure the built program from outside; each makes one run of
// many messages, so use -benchtime 1x. The test servers share the processors with
// the daemon. At the end a table compares what was measured with the targets.

// measured is what the benchmarks found, for the table.
var measured struct {
	mu   sync.Mutex
	rows []measurement
}

type measurement struct {
	what   string
	value  float64
	unit   string
	target string // "" for what has none
}

// notInUnit is what a metric's name should not hold: benchmark output is split at spaces.
var notInUnit = regexp.MustCompile(`[^a-zA-Z0-9/%]+`)

// metric notes a result as a metric of the benchmark and a row of the table.
func metric(b *testing.B, what string, value float64, unit, target string) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // the time of the whole run says nothing
	b.ReportMetric(value, strings.Trim(notInUnit.ReplaceAllString(what+" "+unit, "-"), "-"))
	measured.mu.Lock()
	defer measured.mu.Unlock()
	measured.rows = append(measured.rows, measurement{what, value, unit, target})
}

func printMeasured(w io.Writer) {
	if len(measured.rows) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "\nMEASURED\t\t\tTARGET") // Flush tells
	for _, m := range measured.rows {
		_, _ = fmt.Fprintf(t, "%s\t%.4g\t%s\t%s\n", m.what, m.value, m.unit, m.target)
	}
	_ = t.Flush()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median[T int | float64 | time.Duration](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

// benchWorld is a world that keeps no logs, and a model that answers at once.
func benchWorld(b *testing.B, answer func(ollamatest.Request) ollamatest.Answer) *realWorld {
	return newRealWorld(b, bottest.Config{Keep: 64}, ollamatest.Config{Answer: answer, Forget: true})
}

func BenchmarkStart(b *testing.B) {
	for range b.N {
		info, err := os.Stat(executable(b))
		if err != nil {
			b.Fatal(err)
		}
		metric(b, "program", float64(info.Size())/1e6, "MB", "30")
		w := benchWorld(b, answerTokens)
		d, first := w.measureStart()
		metric(b, "start without data", ms(first), "ms", "")
		var starts []time.Duration
		for range 20 {
			var took time.Duration
			d.kill()
			d, took = w.measureStart()
			starts = append(starts, took)
		}
		metric(b, "start", ms(median(starts)), "ms", "25")
		<-time.After(2 * time.Second) // the start's memory is given back when all is quiet
		metric(b, "resident idle", d.memory("VmRSS"), "MB", "14")
	}
}

// measureStart starts a daemon and gives the time from exec to the first getUpdates.
func (w *realWorld) measureStart() (*child, time.Duration) {
	w.Helper()
	d := w.start()
	d.waitIdle()
	polls := w.tg.Calls(bottest.Method("getUpdates"), func(c bottest.Call) bool { return c.At.After(d.began) })
	return d, polls[0].At.Sub(d.began)
}

func BenchmarkOneChat(b *testing.B) {
	const messages, pause = 50, 200 * time.Millisecond
	for range b.N {
		w := benchWorld(b, answerTokens)
		c := w.crowd(1)
		d := w.start()
		d.waitIdle()
		c.ask(0) // opens the connections
		w.waitAnswered(c)
		tick := time.NewTicker(pause)
		defer tick.Stop()
		before := d.cpu()
		var added []time.Duration
		for range messages {
			<-tick.C
			added = append(added, w.exchange(c, 0))
		}
		used := d.cpu() - before
		metric(b, "one chat: added latency", ms(median(added)), "ms", "5")
		metric(b, "one chat: processor time of a message", ms(used)/messages, "ms", "5")
		metric(b, "one chat: resident afterwards", d.memory("VmRSS"), "MB", "")
	}
}

// exchange asks and waits for the answer, and gives the time that it took beyond
// the model's.
func (w *realWorld) exchange(c *crowd, person int) time.Duration {
	w.Helper()
	model, began := w.ollama.taken(), time.Now()
	c.ask(person)
	w.wait("the answer", func() bool { return c.answered(person) })
	m, _ := c.people[person].Chat().Last()
	w.waitModel("the end of the model call", func(s ollamatest.State) bool { return s.Active == 0 })
	if m.Edits > 0 { // it was a preview
		m.At = m.Edited
	}
	return m.At.Sub(began) - (w.ollama.taken() - model)
}

func BenchmarkStream(b *testing.B) {
	const messages = 20
	for range b.N {
		speak, end := make(chan struct{}), make(chan struct{})
		w := benchWorld(b, func(r ollamatest.Request) ollamatest.Answer {
			open := strings.Join(waitingTokens(r), " ")
			return ollamatest.Answer{
				ollamatest.Until(speak), ollamatest.Text(answerBegin + " with words and " + open + ", "),
				ollamatest.Until(end), ollamatest.Text(answerEnd),
			}
		})
		c := w.crowd(messages) // of one chat, only one preview a second is shown
		d := w.start()
		d.waitIdle()
		var first, last []time.Duration
		for i := range messages {
			c.ask(i)
			w.waitModel("the model call", func(s ollamatest.State) bool { return s.Active > 0 })
			began := time.Now()
			speak <- struct{}{}
			chat := c.people[i].Chat()
			w.wait("the preview", func() bool { return len(chat.FromBot()) > 0 })
			first = append(first, chat.FromBot()[0].At.Sub(began))
			began = time.Now()
			end <- struct{}{}
			w.wait("the answer", func() bool { return c.answered(i) })
			last = append(last, chat.FromBot()[0].Edited.Sub(began))
			w.waitModel("the end of the model call", func(s ollamatest.State) bool { return s.Active == 0 })
		}
		metric(b, "first words after the model's", ms(median(first)), "ms", "40")
		metric(b, "answer after the last token", ms(median(last)), "ms", "20")
	}
}

func BenchmarkManyChats(b *testing.B) {
	const people, each = 100, 5
	for range b.N {
		w := benchWorld(b, answerTokens)
		c := w.crowd(people)
		d := w.start()
		d.waitIdle()
		calls, before, began := w.llm.State().Served, d.cpu(), time.Now()
		for range each {
			c.askAll()
		}
		w.waitAnswered(c)
		took := time.Since(began)
		metric(b, "100 chats, 5 messages each", people*each/took.Seconds(), "messages/s", "300")
		metric(b, "100 chats: lost or out of order", float64(w.lost(c)), "messages", "0")
		metric(b, "100 chats: model calls for 500 messages", float64(w.llm.State().Served-calls), "calls", "")
		metric(b, "100 chats: processor time of a message", ms(d.cpu()-before)/people/each, "ms", "")
	}
}

// lost counts the questions without an answer, and those answered out of order.
func (w *realWorld) lost(c *crowd) (n int) {
	for i := range c.people {
		s := c.state(i)
		questions, _ := c.missing(i, s)
		n += len(questions)
		for j := 1; j < len(s.answered); j++ {
			if question(s.answered[j]) < question(s.answered[j-1]) {
				n++
			}
		}
	}
	return n
}

func BenchmarkThousandChats(b *testing.B) {
	const people = 1000
	for range b.N {
		w := benchWorld(b, answerTokens)
		c := w.crowd(people)
		d := w.start()
		d.waitIdle()
		before, began := d.cpu(), time.Now()
		c.askAll()
		w.waitAnswered(c)
		metric(b, "1000 chats at once", time.Since(began).Seconds(), "s", "4")
		metric(b, "1000 chats: memory at most", d.memory("VmHWM"), "MB", "60")
		metric(b, "1000 chats: processor time of a message", ms(d.cpu()-before)/people, "ms", "")
		metric(b, "1000 chats: lost", float64(w.lost(c)), "messages", "0")
		for _, host := range []struct {
			name string
			*door
		}{{"Telegram", w.telegram}, {"Ollama", w.ollama}} {
			opened, _, open := host.connections()
			metric(b, "connections opened to "+host.name, float64(opened), "", "")
			metric(b, "connections left to "+host.name, float64(open), "", "64")
		}
	}
}

func BenchmarkLongChat(b *testing.B) {
	const short, long, messages = 20, 2000, 200
	for range b.N {
		var p prefixes
		w := benchWorld(b, func(r ollamatest.Request) ollamatest.Answer {
			p.see(r)
			return answerTokens(r)
		})
		c := w.crowd(1 + messages/10)
		d := w.start()
		d.waitIdle()
		for i := range c.people {
			for range short / 2 { // a question and an answer are two messages
				w.exchange(c, i)
			}
		}
		for range (long - short) / 2 {
			w.exchange(c, 0)
		}
		// In turns, so that what else happens on the machine meets both.
		var shortRun, longRun run10
		for n := range messages / 10 {
			shortRun.add(w, d, c, 1+n)
			p.watch(true)
			longRun.add(w, d, c, 0)
			p.watch(false)
		}
		shortLatency, shortProcessor := median(shortRun.added), shortRun.processor/messages
		longLatency, longProcessor := median(longRun.added), longRun.processor/messages
		metric(b, "20 earlier messages: added latency", ms(shortLatency), "ms", "")
		metric(b, "20 earlier messages: processor time", ms(shortProcessor), "ms", "")
		metric(b, "2000 earlier messages: added latency", ms(longLatency), "ms", "")
		metric(b, "2000 earlier messages: processor time", ms(longProcessor), "ms", "")
		metric(b, "2000 to 20 earlier messages: latency", float64(longLatency)/float64(shortLatency), "times", "1.1")
		metric(b, "2000 to 20 earlier messages: processor time", float64(longProcessor)/float64(shortProcessor), "times", "1.1")
		metric(b, "prompt repeated by the next one, at least", 100*slices.Min(p.shares), "%", "99")
		metric(b, "cuts in 200 messages", float64(p.cuts), "", "")
	}
}

// run10 is what messages cost, measured ten at a time.
type run10 struct {
	added     []time.Duration
	processor time.Duration
}

func (r *run10) add(w *realWorld, d *child, c *crowd, person int) {
	before := d.cpu()
	for range 10 {
		r.added = append(r.added, w.exchange(c, person))
	}
	r.processor += d.cpu() - before
}

// prefixes measures how much of a prompt the next one begins with.
type prefixes struct {
	mu     sync.Mutex
	on     bool
	last   []json.RawMessage
	shares []float64
	cuts   int
}

func (p *prefixes) watch(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = on
}

func (p *prefixes) see(r ollamatest.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.on {
		return
	}
	var body struct{ Messages []json.RawMessage }
	_ = json.Unmarshal(r.Body, &body) // the server has decoded it
	next, last := body.Messages, p.last
	p.last = next
	switch {
	case len(last) < 2:
	case !bytes.Equal(last[1], next[1]): // another message follows the system text
		p.cuts++
	default:
		same, all := 0, 0
		for i, m := range last {
			if all += len(m); i < len(next) && all == same+len(m) && bytes.Equal(m, next[i]) {
				same = all
			}
		}
		p.shares = append(p.shares, float64(same)/float64(all))
	}
}

func BenchmarkSlowModel(b *testing.B) {
	for range b.N {
		w := benchWorld(b, func(r ollamatest.Request) ollamatest.Answer {
			return append(ollamatest.Answer{ollamatest.Wait(time.Second)}, answerTokens(r)...)
		})
		c := w.crowd(20)
		w.start().waitIdle()
		began := time.Now()
		c.askAll()
		w.waitAnswered(c)
		metric(b, "20 chats, a model that takes 1 s", time.Since(began).Seconds(), "s", "1.1")
	}
}

func BenchmarkKill(b *testing.B) {
	for _, model := range []time.Duration{0, 250 * time.Millisecond} {
		b.Run(model.String(), func(b *testing.B) {
			for range b.N {
				w := newRealWorld(b, bottest.Config{}, ollamatest.Config{Forget: true, Answer: func(r ollamatest.Request) ollamatest.Answer {
					return append(ollamatest.Answer{ollamatest.Wait(model)}, answerTokens(r)...)
				}})
				c := w.crowd(100)
				d := w.start()
				d.waitIdle()
				w.trap.set(d, 100, later, time.Millisecond, nil)
				for range 5 {
					c.askAll()
				}
				d.wait()
				answered := 0
				for i := range c.people {
					answered += len(c.state(i).answered)
				}
				w.start()
				c.askAll() // whose answers come after all others
				w.waitAnswered(c)
				var lost, doubled, labelled int
				for i := range c.people {
					s := c.state(i)
					questions, answers := c.missing(i, s)
					if answers > len(s.notices) {
						lost += len(questions)
					}
					again, _ := s.doubled()
					doubled += again
					labelled += len(s.notices)
				}
				name := fmt.Sprintf("kill -9 amid 500 messages, model at %s: ", model)
				metric(b, name+"answered before", float64(answered), "messages", "")
				metric(b, name+"lost", float64(lost), "messages", "0")
				metric(b, name+"doubled", float64(doubled), "messages", "0")
				metric(b, name+"labelled uncertain", float64(labelled), "answers", "")
			}
		})
	}
}

// BenchmarkFlood asks the next question of each chat as soon as the last one is
// answered, under Telegram's limits.
func BenchmarkFlood(b *testing.B) {
	const people, each = 100, 5
	for range b.N {
		w := newRealWorld(b, bottest.Config{Flood: true}, ollamatest.Config{Answer: answerTokens, Forget: true})
		for _, name := range []string{"TELEGRAM_RATE", "TELEGRAM_CHAT_RATE", "TELEGRAM_GROUP_RATE"} {
			delete(w.env, name)
		}
		c := w.crowd(people)
		w.start().waitIdle()
		began := time.Now()
		c.askAll()
		w.wait("all answers", func() bool {
			done := true
			for i := range c.people {
				switch {
				case !c.answered(i):
					done = false
				case c.questions(i) < each:
					c.ask(i)
					done = false
				}
			}
			return done
		})
		took := time.Since(began)
		refused := w.tg.Calls(func(c bottest.Call) bool { return c.Code == 429 })
		best := float64(people*each-bottest.FloodAll) / bottest.FloodAll
		metric(b, "flood limits on, 500 messages: lost", float64(w.lost(c)), "messages", "0")
		metric(b, "flood limits on: refusals", float64(len(refused)), "calls", "under 20")
		metric(b, "flood limits on: time to the best possible", took.Seconds()/best, "times", "1.2")
	}
}
