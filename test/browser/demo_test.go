// Package browser tries "agentd demo" as a person does: in Chromium, by typing,
// pressing and looking. It is a module of its own, so that the daemon's depends
// on nothing it does not ship.
package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestDemo is one visit: its parts follow each other in the same chat.
func TestDemo(t *testing.T) {
	demo := runDemo(t)
	if !strings.Contains(demo.said, "There is no model") || !strings.Contains(demo.said, "scripted stand-in") {
		t.Errorf("the demo must not pass for a model; it says %q", demo.said)
	}
	p := open(t, demo.url)

	t.Run("a text is answered", func(t *testing.T) {
		p := p.in(t)
		p.say("hello")
		p.until("the stand-in's answer", `bot().text.includes("only a script that stands in")`)
		p.check("the person's own bubble stands on their side", `document.querySelector(".mine .text").textContent === "hello"`)
		p.until("the answer is complete", `headline() === "bot" && bot().text.includes("start me again")`)
		p.check("typing was shown while the bot was busy", `seen.status.includes("typing…")`)
		p.check("the examples are bold", `bot().node.querySelectorAll("b").length >= 4`)
		p.check("writing goes on at once, in an empty field", `document.activeElement === document.getElementById("text") && document.getElementById("text").value === ""`)
		p.shot("hello")
	})

	t.Run("a long answer grows and ends formatted", func(t *testing.T) {
		p := p.in(t)
		p.say("A long answer, please")
		p.until("a preview", `bot().text.length > 20 && answers().length === 1`)
		p.shot("preview")
		p.until("the end of the answer", `headline() === "bot" && answers().some((m) => m.text.includes("be a real model"))`)
		p.check("one and the same message grew in steps", `Math.max(...Object.values(seen.lengths).map((l) => l.length)) >= 3`)
		p.check("code is in a block that names its language", `answers().some((m) => [...m.node.querySelectorAll("pre")].some((b) => b.querySelector(".language")?.textContent === "go" && b.textContent.includes("package main")))`)
		p.check("the table is a block", `answers().some((m) => [...m.node.querySelectorAll("pre")].some((b) => b.textContent.includes("exact arithmetic")))`)
		p.check("styles are styles", `["b", "i", "s", "code", "blockquote", "a"].every((tag) => answers().some((m) => m.node.querySelector(tag)))`)
		p.check("no Markdown is left over", `answers().every((m) => !/\*\*|~~|`+"```"+`|^#/m.test(m.text))`)
		p.check("the view is at the end", `atEnd()`)
		p.fits()
		p.shot("long")
	})

	t.Run("a tool's result is in the answer", func(t *testing.T) {
		p := p.in(t)
		p.say("calculate 17*23+5")
		p.until("the sum", `bot().text.includes("396") && bot().node.querySelector("b")?.textContent === "396"`)
	})

	t.Run("a helper is asked", func(t *testing.T) {
		p := p.in(t)
		p.say("ask a helper to work out 6*7")
		p.until("the helper's answer", `bot().node.querySelector("blockquote")?.textContent.includes("42")`)
		p.shot("helper")
	})

	t.Run("markup in a text stays text", func(t *testing.T) {
		p := p.in(t)
		const attack = `<img src=x onerror=alert(1)>`
		p.command("/new", "fresh conversation")
		p.say(attack)
		p.until("an answer", `bot().text.includes("I cannot answer that")`)
		p.check("it is shown as it was written", `[...document.querySelectorAll(".mine .text")].at(-1).textContent === "`+attack+`"`)
		p.command("/sessions", attack) // the conversation is called by its first words
		p.check("no picture came of it", `document.images.length === 0`)
	})

	t.Run("buttons do what they say", func(t *testing.T) {
		p := p.in(t)
		p.command("/sessions", "Your conversations")
		p.shot("buttons")
		p.check("there are buttons", `bot().node.querySelectorAll(".row button").length >= 2`)
		p.mark()
		p.press("2")
		p.until("the earlier conversation is open", `all().some((m) => m.text.includes("Back in"))`)
		p.command("/sessions", "Your conversations")
		p.press("🗑")
		p.until("the question whether to delete", `bot().text.includes("for good?")`)
		p.press("Keep")
		p.until("the choice is heard", `!bot().text.includes("for good?")`)
	})

	t.Run("stop stops", func(t *testing.T) {
		p := p.in(t)
		p.say("A long answer, please")
		p.until("a preview", `bot().text.length > 20`)
		p.enter("/stop")
		p.until("the bot says so", `bot().text === "Stopped." && headline() === "bot"`)
		p.check("the rest never came", `answers().every((m) => !m.text.includes("be a real model"))`)
		p.command("/id", "Your id is") // and it goes on listening
	})

	t.Run("commands are offered", func(t *testing.T) {
		p := p.in(t)
		p.do(chromedp.Click("#commands", chromedp.ByID))
		p.until("the menu", `document.querySelectorAll("#menu button").length === 10`)
		p.shot("commands")
		p.do(chromedp.SendKeys("#text", kb.Escape, chromedp.ByID))
		p.until("the menu is gone", `document.getElementById("menu").hidden`)
	})

	t.Run("it fits a phone, in the dark", func(t *testing.T) {
		p := p.in(t)
		p.phone()
		p.fits()
		p.shot("phone")
	})

	t.Run("a reload shows the same chat", func(t *testing.T) {
		p := p.in(t)
		var before int
		p.do(chromedp.Evaluate(`document.querySelectorAll(".message").length`, &before))
		p.do(chromedp.Reload())
		p.prepare()
		p.until("as many messages as before", fmt.Sprintf(`document.querySelectorAll(".message").length === %d`, before))
	})

	for _, complaint := range p.heard() {
		t.Error(complaint)
	}
	if kept := demo.data(t); len(kept) != 1 {
		t.Errorf("the demo keeps %q, want one folder", kept)
	}
	demo.stop(t)
	if kept := demo.data(t); len(kept) > 0 {
		t.Errorf("the demo left %q behind", kept)
	}
}

// patience is how long a part of the page may take at most on a busy machine.
const patience = time.Minute
