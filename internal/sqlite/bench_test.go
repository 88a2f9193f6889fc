package sqlite

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"agentd/internal/agent"
)

// cpu gives the processor time that the process has used. The budget of a message
// is one of processor time: the rest of its time it waits for the disk.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure reports the processor time beside the time that an operation took.
func measure(b *testing.B, op func(i int)) {
	b.ReportAllocs()
	before, n := cpu(b), 0
	for b.Loop() {
		op(n)
		n++
	}
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(n)/1e3, "cpu-µs/op")
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "agentd.db")
	check(b, openAt(b, path).Close())
	measure(b, func(int) {
		s := must(Open(b.Context(), path, Config{}))(b)
		check(b, s.Close())
	})
}

// BenchmarkMessage takes one message the whole way, in 100 chats, and reports the
// processor time of each verb.
func BenchmarkMessage(b *testing.B) {
	c := newStore(b)
	spent := map[string]time.Duration{}
	ops := 0
	measure(b, func(i int) {
		ops++
		last := cpu(b)
		lap := func(verb string) {
			now := cpu(b)
			spent[verb] += now - last
			last = now
		}
		chat := int64(i%100) + 1
		accept1(b, c.Store, text(int64(i+1), chat, "hello"))
		lap("accept")
		turn := claim(b, c.Store)
		lap("claim")
		must(c.History(b.Context(), turn.Session, max(0, int64(i/100)*3-20)))(b) // 21 entries at most
		lap("history")
		step(b, c.Store, turn, agent.TextMessage(agent.Assistant, "step"))
		lap("append")
		end(b, c.Store, turn, "answer")
		lap("finish")
		if _, _, err := c.Lanes(b.Context(), t0); err != nil {
			b.Fatal(err)
		}
		send, _ := next(b, c, chat)
		lap("next")
		settled(b, c.Store, send, agent.Sent)
		lap("settle")
	})
	for verb, d := range spent {
		b.ReportMetric(float64(d.Nanoseconds())/float64(ops)/1e3, verb+"-cpu-µs/op")
	}
}

// BenchmarkClaimNothing looks for a turn behind 5,000 messages of 20 busy chats.
func BenchmarkClaimNothing(b *testing.B) {
	c := newStore(b)
	update := int64(0)
	for chat := range int64(20) {
		update++
		ask(b, c.Store, text(update, chat, "first"))
	}
	var in []agent.Incoming
	for range 250 {
		for chat := range int64(20) {
			update++
			in = append(in, text(update, chat, "more"))
		}
	}
	accept1(b, c.Store, in...)
	measure(b, func(int) { nothingToClaim(b, c.Store) })
}

// BenchmarkAcceptFlood is one sender's 1,000 messages, which wait: each must not
// cost more than the one before.
func BenchmarkAcceptFlood(b *testing.B) {
	c := newStore(b)
	measure(b, func(i int) {
		in := make([]agent.Incoming, 1000)
		for n := range in {
			in[n] = text(int64(i*len(in)+n), 7, "more")
		}
		accept1(b, c.Store, in...)
	})
}
