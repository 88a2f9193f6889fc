package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// visit is the demo's page in a browser.
type visit struct {
	t   *testing.T
	ctx context.Context
	*complaints
}

// in makes the failures of a part of the visit that part's.
func (p visit) in(t *testing.T) visit {
	p.t = t
	return p
}

// complaints are what a person would not see, but should not be: errors of the
// page's script, dialogs, and anything loaded from elsewhere.
type complaints struct {
	mu   sync.Mutex
	list []string
}

func (c *complaints) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

func (c *complaints) heard() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

// open shows url in a new Chromium.
func open(t *testing.T, url string) visit {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("this test needs Chromium; on Debian: apt-get install chromium")
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1000, 900),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
	}
	// It is to look at one page on this machine, and to ask nothing of the net.
	for _, name := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(name, true))
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // waits for the browser's end, so that its folder can go

	p := visit{t: t, ctx: ctx, complaints: &complaints{}}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.add("the page's script fails: %s", e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError {
				p.add("the browser complains: %s %s", e.Entry.Text, e.Entry.URL)
			}
		case *page.EventJavascriptDialogOpening:
			p.add("a dialog opened: %s", e.Message)
			go func() { _ = chromedp.Run(ctx, page.HandleJavaScriptDialog(true)) }()
		case *network.EventRequestWillBeSent:
			if origin, _, _ := strings.Cut(url, "/demo/"); !strings.HasPrefix(e.Request.URL, origin+"/") {
				p.add("the page asks for %s", e.Request.URL)
			}
		}
	})
	if err := chromedp.Run(ctx); err != nil { // starts the browser, which lives as long as this ctx
		t.Fatal(err)
	}
	p.do(network.Enable(), log.Enable(), chromedp.Navigate(url))
	p.prepare()
	return p
}

// watch is what the test knows of the page: its messages in order, those of the
// bot since the last mark, and what was seen to change. A message's text is what
// stands in its bubble without the time.
const watch = `
	var seen = { status: [], lengths: {} };
	var marked = 0;
	var headline = () => document.getElementById("status").textContent;
	var all = () => [...document.querySelectorAll("#log .message")].map((node) => ({
		node, id: Number(node.dataset.id), mine: node.classList.contains("mine"), text: node.querySelector(".text")?.textContent ?? "" }));
	var answers = () => all().filter((m) => !m.mine && m.id > marked);
	var bot = () => answers().at(-1) ?? { node: document.createElement("p"), text: "" };
	new MutationObserver(() => {
		if (seen.status.at(-1) !== headline()) seen.status.push(headline());
		for (const m of answers()) {
			const lengths = seen.lengths[m.id] ??= [];
			if (!(lengths.at(-1) >= m.text.length)) lengths.push(m.text.length);
		}
	}).observe(document.body, { subtree: true, childList: true, characterData: true });`

// prepare waits until a newly loaded page is connected.
func (p visit) prepare() {
	p.t.Helper()
	p.do(chromedp.Evaluate(watch, nil))
	p.until("the page is connected", `headline() === "bot"`)
}

func (p visit) do(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.t.Fatalf("%v; the chat is\n%s", err, p.chat())
	}
}

// until waits for a condition, a JavaScript expression.
func (p visit) until(what, condition string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, chromedp.Poll(condition, nil, chromedp.WithPollingTimeout(0))); err != nil {
		p.shot("failed")
		p.t.Fatalf("never seen: %s (%v); the chat is\n%s", what, err, p.chat())
	}
}

// check looks at a condition once.
func (p visit) check(what, condition string) {
	p.t.Helper()
	var ok bool
	p.do(chromedp.Evaluate(condition, &ok))
	if !ok {
		p.shot("failed")
		p.t.Errorf("not so: %s; the chat is\n%s", what, p.chat())
	}
}

func (p visit) chat() (text string) {
	_ = chromedp.Run(p.ctx, chromedp.Evaluate(`headline() + "\n" + JSON.stringify(seen) + "\n" + all().map((m) => m.id + (m.mine ? " > " : " < ") + m.text).join("\n")`, &text))
	return text
}

// mark makes answers() those that come from here on.
func (p visit) mark() {
	p.do(chromedp.Evaluate(`marked = Math.max(0, ...all().map((m) => m.id)); seen = { status: [], lengths: {} }`, nil))
}

// say types a text and sends it; answers() are then those to it.
func (p visit) say(text string) {
	p.t.Helper()
	p.mark()
	p.enter(text)
}

func (p visit) enter(text string) {
	p.t.Helper()
	p.do(chromedp.SendKeys("#text", text, chromedp.ByID), enterDown, enterUp)
}

// The key Enter as one event, as keyboards send it. chromedp's own is two: the
// page can refuse the first, but not the line break that is the second.
var (
	enterDown = input.DispatchKeyEvent(input.KeyDown).WithKey("Enter").WithCode("Enter").WithWindowsVirtualKeyCode(13).WithText("\r")
	enterUp   = input.DispatchKeyEvent(input.KeyUp).WithKey("Enter").WithCode("Enter").WithWindowsVirtualKeyCode(13)
)

// command sends a command and waits for words of its answer.
func (p visit) command(name, words string) {
	p.t.Helper()
	p.say(name)
	p.until(name+" is answered", fmt.Sprintf(`bot().text.includes(%q)`, words))
}

// press presses the last message's first button whose label holds label.
func (p visit) press(label string) {
	p.t.Helper()
	p.do(chromedp.Click(fmt.Sprintf(`(//li[contains(@class,"message")][div[@class="row"]])[last()]//div[@class="row"]/button[contains(.,%q)]`, label), chromedp.BySearch))
}

// phone makes the window that of a phone that prefers dark colours.
func (p visit) phone() {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
}

// fits checks that nothing has to be scrolled sideways but blocks of code.
func (p visit) fits() {
	p.t.Helper()
	p.check("the page fits the window", `document.documentElement.scrollWidth <= innerWidth && document.getElementById("scroller").scrollWidth <= document.getElementById("scroller").clientWidth`)
}

// shot keeps a picture of the window for people, in .cache/screenshots.
func (p visit) shot(name string) {
	p.t.Helper()
	dir := filepath.Join("..", "..", ".cache", "screenshots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	var png []byte
	p.do(chromedp.CaptureScreenshot(&png))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
