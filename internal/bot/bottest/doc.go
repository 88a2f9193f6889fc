// Package bottest is a Telegram Bot API server in the process: what tests and
// "agentd demo" run the bot against.
//
// It behaves as the public server does where a bot can tell the difference:
// real long polls confirmed by offset, 409 between two pollers, webhooks,
// files, Telegram's own texts for refusals, limits counted in UTF-16 units
// after entity parsing, and optionally the flood limits. Every request is
// checked against the official specification (Bot API 10.1); what breaks it
// is refused with 400 and kept for [Server.Violations], so that a test can
// assert that there were none.
//
// # A test
//
//	srv, err := bottest.New(bottest.Config{})
//	defer srv.Close()
//	mira := srv.User(100200300, "Mira Sample", "en")
//	// … start the bot with the token srv.Token() and either the URL of
//	// srv.Start() or an http.Transport{DialContext: srv.Dial} …
//	mira.Send("hello")
//	err = srv.Wait(ctx, func(s *bottest.Server) bool { return len(mira.Chat().FromBot()) == 1 })
//
// [Person] does what people do: write, edit, press buttons, react, block.
// [Server.Inject] takes raw updates, also of kinds that do not exist yet.
// [Chat] shows what a person sees now ([Chat.Messages]) and everything that
// ever happened ([Chat.History]), previews included. [Server.Calls] is the log
// of all requests. [Server.Wait] blocks until something holds, without polling.
//
// # Faults
//
// [Server.Fault] makes chosen calls fail: refuse, answer HTML, cut the
// connection before or after the call took effect, delay, hang, cut the answer
// in half. See [Rule].
//
// # Time
//
// The server reads time.Now and listens on TCP ([Server.Start]) or in memory
// ([Server.Dial]). In a testing/synctest bubble only the latter lets the
// virtual clock run: a long poll of 50 s then takes no time. Make and close
// the server inside the bubble.
//
// # A page for people
//
// [Server.Page] is a web page that looks and behaves like a chat with the bot:
// live previews, formatted text, buttons, reactions, the command menu.
// [Page.Start] serves it on a loopback address under a random key; requests of
// other sites, and names that were rebound to this machine, get nothing.
//
// # Where it is stricter than Telegram
//
// Unknown parameters are violations (Telegram ignores them), and explicit
// entities must nest as the API page says (Telegram repairs them, dropping
// styles). Where it is more lenient: webhooks may use http, and a private chat
// is open without /start. It never fetches a URL.
package bottest
