package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"agentd/internal/agent"
)

// measure reports the processor time of the loop beside the time it took: the
// budget of a message is one of processor time.
func measure(b *testing.B, op func(i int)) {
	b.ReportAllocs()
	cpu := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before, n := cpu(), 0
	for b.Loop() {
		op(n)
		n++
	}
	b.ReportMetric(float64(cpu()-before)/float64(n)/1e3, "cpu-µs/op")
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "agentd.db")
	openAt(b, path).Close()
	measure(b, func(int) {
		s, err := Open(context.Background(), path, Config{})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	})
}

func BenchmarkAccept(b *testing.B) {
	s := openAt(b, filepath.Join(b.TempDir(), "agentd.db"))
	measure(b, func(i int) { accept1(b, s, text(int64(i+1), int64(i%100), "hello")) })
}

// BenchmarkMessage takes one message the whole way: Accept, Claim, History, Append, Finish,
// Next, Settle, and the reads between them.
func BenchmarkMessage(b *testing.B) {
	ctx := b.Context()
	s := openAt(b, filepath.Join(b.TempDir(), "agentd.db"))
	c := s.Channel("telegram")
	var spent [6]time.Duration
	names := [6]string{"accept", "claim", "history", "append", "finish", "send"}
	n := 0
	measure(b, func(i int) {
		n++
		at := time.Now()
		lap := func(k int) { now := time.Now(); spent[k] += now.Sub(at); at = now }
		chat := int64(i%100) + 1
		accept1(b, s, text(int64(i+1), chat, "hello"))
		lap(0)
		turn, ok, err := s.Claim(ctx, t0, compose)
		if err != nil || !ok {
			b.Fatal(ok, err)
		}
		lap(1)
		if _, err := s.History(ctx, turn.Session, max(0, int64(i/100)*3-20)); err != nil {
			b.Fatal(err)
		}
		lap(2)
		if err := s.Append(ctx, turn.Session, turn.Turn, agent.TextMessage(agent.Assistant, "step")); err != nil {
			b.Fatal(err)
		}
		lap(3)
		m := agent.TextMessage(agent.Assistant, "answer")
		if err := s.Finish(ctx, turn, agent.Ending{State: agent.TurnDone, Message: &m, Posts: []agent.Post{{Key: fmt.Sprint("turn:", turn.Turn), Address: turn.Address, Turn: turn.Turn, Parts: []agent.Payload{{Body: json.RawMessage(`{"text":"answer"}`)}}}}}); err != nil {
			b.Fatal(err)
		}
		lap(4)
		if _, _, err := c.Lanes(ctx, time.Now()); err != nil {
			b.Fatal(err)
		}
		send, ok, err := c.Next(ctx, chat, time.Now())
		if err != nil || !ok {
			b.Fatal(ok, err)
		}
		if err := s.Settle(ctx, send, agent.Outcome{Fate: agent.Sent, Message: int64(i)}); err != nil {
			b.Fatal(err)
		}
		lap(5)
	})
	for k, d := range spent {
		b.ReportMetric(float64(d.Microseconds())/float64(n), names[k]+"-µs")
	}
}
