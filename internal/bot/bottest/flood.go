package bottest

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Telegram's limits as its FAQ and the field tell them, when Config.Flood is
// set. Sends, edits, forwards and copies count; a refused call does not.
// After a refusal all counted calls to that chat (or, for the overall limit,
// all chats) are refused until retry_after has passed.
const (
	FloodPrivate      = 1  // messages a second in a private chat …
	FloodPrivateBurst = 5  // … after so many at once
	FloodGroup        = 20 // messages a minute in a group
	FloodAll          = 30 // messages a second in all
)

// flood is the state of the limits; Server.mu guards it.
type flood struct {
	all     bucket
	private map[int64]*bucket
	groups  map[int64][]time.Time // of the last minute
	until   map[int64]time.Time   // end of a penalty by chat, 0 is all chats
}

type bucket struct {
	level float64 // used up
	at    time.Time
}

// wait is how long until one more fits; 0 means now.
func (b *bucket) wait(now time.Time, rate, burst float64) time.Duration {
	b.level = max(0, b.level-now.Sub(b.at).Seconds()*rate)
	b.at = now
	return time.Duration(max(0, (b.level+1-burst)/rate) * float64(time.Second))
}

func (f *flood) take(method string, chat int64, now time.Time) *apiError {
	if !counted(method) {
		return nil
	}
	for _, id := range []int64{0, chat} {
		if end := f.until[id]; end.After(now) {
			return tooMany(seconds(end.Sub(now)))
		}
	}
	if wait := f.all.wait(now, FloodAll, FloodAll); wait > 0 {
		return f.refuse(0, now, wait)
	}
	if chat > 0 {
		b := f.private[chat]
		if b == nil {
			b = &bucket{}
			f.private[chat] = b
		}
		if wait := b.wait(now, FloodPrivate, FloodPrivateBurst); wait > 0 {
			return f.refuse(chat, now, wait)
		}
		b.level++
	} else {
		recent := slices.DeleteFunc(f.groups[chat], func(t time.Time) bool { return now.Sub(t) >= time.Minute })
		f.groups[chat] = recent
		if len(recent) >= FloodGroup {
			return f.refuse(chat, now, time.Minute-now.Sub(recent[0]))
		}
		f.groups[chat] = append(recent, now)
	}
	f.all.level++
	return nil
}

func (f *flood) refuse(chat int64, now time.Time, wait time.Duration) *apiError {
	n := seconds(wait)
	f.until[chat] = now.Add(time.Duration(n) * time.Second)
	return tooMany(n)
}

func seconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

func counted(method string) bool {
	switch method {
	case "sendChatAction", "sendMessageDraft", "sendRichMessageDraft":
		return false
	}
	for _, prefix := range []string{"send", "edit", "forward", "copy"} {
		if strings.HasPrefix(method, prefix) {
			return true
		}
	}
	return false
}
