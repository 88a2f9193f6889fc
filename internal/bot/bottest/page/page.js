"use strict";
// The chat page of the demo. All text comes from outside: it enters the page
// as text nodes only, never as markup.

const el = (id) => document.getElementById(id);
const log = el("log"), scroller = el("scroller"), text = el("text"), menu = el("menu");
const messages = new Map(); // id -> {data, node}
let state = { action: "", drafts: [], commands: [] };
let replyTo = 0, unseen = 0, connected = false, loading = true;

function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

function button(label, className, onClick, ...children) {
  const node = make("button", className, ...children);
  node.type = "button";
  if (label) node.setAttribute("aria-label", label);
  node.addEventListener("click", onClick);
  return node;
}

async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.status === 204 ? null : answer.json();
}

// Formatted text

const safeLink = /^(?:https?|tg|mailto|tel):/i;
const bareLink = /https?:\/\/[^\s<>"]+[^\s<>".,;:!?')\]]/g;

function link(url, ...children) {
  const full = /^[a-z][a-z0-9+.-]*:/i.test(url) ? url : "https://" + url;
  if (!safeLink.test(full)) return make("span", "", ...children);
  const node = make("a", "", ...children);
  node.href = full;
  node.target = "_blank";
  node.rel = "noopener noreferrer";
  return node;
}

function plain(parent, s, links) {
  let at = 0;
  if (links) {
    for (const found of s.matchAll(bareLink)) {
      parent.append(s.slice(at, found.index), link(found[0], found[0]));
      at = found.index + found[0].length;
    }
  }
  parent.append(s.slice(at));
}

function spoiler() {
  const node = make("span", "spoiler");
  const show = () => node.setAttribute("aria-expanded", "true");
  node.setAttribute("role", "button");
  node.setAttribute("aria-expanded", "false");
  node.setAttribute("aria-label", "Spoiler");
  node.tabIndex = 0;
  node.addEventListener("click", (e) => { if (node.getAttribute("aria-expanded") === "false") { e.preventDefault(); show(); node.removeAttribute("aria-label"); } });
  node.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); show(); node.removeAttribute("aria-label"); } });
  return node;
}

// element makes the outer and the inner node of an entity.
function element(entity, covered) {
  const simple = { bold: "b", italic: "i", underline: "u", strikethrough: "s", code: "code", blockquote: "blockquote" }[entity.type];
  if (simple) { const node = make(simple); return [node, node]; }
  switch (entity.type) {
    case "pre": {
      const code = make("code"), pre = make("pre");
      pre.tabIndex = 0;
      if (entity.language) pre.append(make("span", "language", entity.language));
      pre.append(code);
      return [pre, code];
    }
    case "spoiler": { const node = spoiler(); return [node, node]; }
    case "expandable_blockquote": {
      const node = make("blockquote", "folded");
      node.tabIndex = 0;
      const unfold = () => node.classList.remove("folded");
      node.addEventListener("click", unfold);
      node.addEventListener("keydown", (e) => { if (e.key === "Enter") unfold(); });
      return [node, node];
    }
    case "text_link": { const node = link(entity.url); return [node, node]; }
    case "url": { const node = link(covered); return [node, node]; }
    case "email": { const node = link("mailto:" + covered); return [node, node]; }
    case "bot_command": { const node = make("span"); return [node, node]; }
    default: { const node = make("span"); return [node, node]; }
  }
}

// format fills parent with s[from, to) and the entities inside, outer first.
function format(parent, s, entities, from, to, links) {
  let at = from;
  for (let i = 0; i < entities.length; i++) {
    const e = entities[i], end = Math.min(e.offset + e.length, to);
    if (e.offset < at || end <= e.offset) continue;
    const inside = entities.filter((x, k) => k > i && x.offset >= e.offset && x.offset + x.length <= end);
    plain(parent, s.slice(at, e.offset), links);
    const [outer, inner] = element(e, s.slice(e.offset, end));
    const holdsLinks = !["code", "pre", "text_link", "url", "email"].includes(e.type);
    format(inner, s, inside, e.offset, end, links && holdsLinks);
    parent.append(outer);
    at = end;
    const isBlock = e.type === "pre" || e.type.endsWith("blockquote");
    if (isBlock && s[at] === "\n") at++; // a block ends its line itself
  }
  plain(parent, s.slice(at, to), links);
}

function formatted(s, entities) {
  const node = make("div", "text");
  const sorted = [...(entities || [])].sort((a, b) => a.offset - b.offset || b.length - a.length);
  format(node, s, sorted, 0, s.length, true);
  return node;
}

// Messages

function size(n) {
  return n < 1024 ? n + " B" : n < 1048576 ? (n / 1024).toFixed(1) + " KB" : (n / 1048576).toFixed(1) + " MB";
}

function attachment(m) {
  if (!m.file) return m.kind === "text" || m.kind === "rich_message" ? null : make("p", "service", "[" + m.kind.replaceAll("_", " ") + "]");
  const url = "file/" + m.id;
  if (m.file.image) {
    const picture = make("img", "picture");
    picture.src = url;
    picture.alt = m.text || m.file.name || "Picture";
    picture.addEventListener("load", keepAtEnd);
    return picture;
  }
  const anchor = make("a", "", "📄 " + (m.file.name || m.kind) + " (" + size(m.file.size) + ")");
  anchor.href = url;
  anchor.download = m.file.name || m.kind;
  return anchor;
}

function keyboard(m) {
  return (m.buttons || []).map((row) => make("div", "row", ...row.map((b) => {
    if (b.url) return link(b.url, b.text + " ↗");
    return button("", "", async (e) => {
      const pressed = e.currentTarget;
      pressed.setAttribute("aria-busy", "true");
      try {
        const answer = await post("press", { message: m.id, data: b.callback_data || "" });
        if (answer.text) notice(answer.text);
      } catch (err) { notice(err.message); }
      pressed.removeAttribute("aria-busy");
    }, b.text);
  })));
}

function reactions(m) {
  const node = make("div", "reactions");
  const mine = m.mine || [];
  for (const [emoji, count] of Object.entries(m.reactions || {})) {
    const chip = button(emoji + " " + count, "reaction", () => react(m, emoji), emoji + (count > 1 ? " " + count : ""));
    chip.setAttribute("aria-pressed", String(mine.includes(emoji)));
    node.append(chip);
  }
  return node.childElementCount ? node : null;
}

function react(m, emoji) {
  post("react", { message: m.id, emoji: (m.mine || []).includes(emoji) ? [] : [emoji] }).catch((err) => notice(err.message));
}

function actions(m) {
  return make("span", "actions",
    button("Reply", "", () => startReply(m), "↩"),
    ...["👍", "👎", "❤"].map((emoji) => button("React with " + emoji, "", () => react(m, emoji), emoji)));
}

function view(m) {
  const at = new Date(m.at);
  const time = make("time", "", at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }));
  time.dateTime = at.toISOString();
  const bubble = make("div", "bubble");
  bubble.append(make("span", "hidden", m.bot ? "Bot: " : "You: "));
  const original = messages.get(m.replyTo);
  if (original) bubble.append(make("div", "reply", original.data.text.slice(0, 200) || "[" + original.data.kind + "]"));
  const attached = attachment(m);
  if (attached) bubble.append(attached);
  if (m.text) bubble.append(formatted(m.text, m.entities));
  bubble.append(make("div", "meta", actions(m), ...(m.edited ? ["edited"] : []), ...(m.silent ? ["🔕"] : []), time));
  const node = make("li", "message" + (m.bot ? "" : " mine"), bubble);
  const chips = reactions(m);
  if (chips) node.append(chips);
  node.append(...keyboard(m));
  node.dataset.id = m.id;
  return node;
}

function atEnd() { return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80; }
let stick = true;
function keepAtEnd() { if (stick) scroller.scrollTop = scroller.scrollHeight; }

function put(m) {
  const known = messages.get(m.id), node = view(m);
  messages.set(m.id, { data: m, node });
  if (known) {
    const held = known.node.contains(document.activeElement);
    known.node.replaceWith(node);
    if (held) scroller.focus({ preventScroll: true });
  } else {
    node.classList.add("fresh"); // an edit does not appear anew
    const later = [...log.children].find((n) => Number(n.dataset.id) > m.id);
    log.insertBefore(node, later || null);
    if (m.bot && !loading) {
      if (!stick) unseen++;
      if (document.hidden && !m.silent) document.title = "● agentd demo";
    }
  }
  showNewer();
  keepAtEnd();
}

function gone(id) {
  messages.get(id)?.node.remove();
  messages.delete(id);
  if (replyTo === id) startReply(null);
}

function showNewer() {
  el("newer").hidden = stick;
  el("newer-count").textContent = unseen ? unseen + " new" : "";
  el("newer").setAttribute("aria-label", unseen ? unseen + " new messages, go to the end" : "Go to the end");
}

// The view follows the end until the person scrolls up.
let top0 = 0;
scroller.addEventListener("scroll", () => {
  if (atEnd()) { stick = true; unseen = 0; } else if (scroller.scrollTop < top0 - 4) stick = false;
  top0 = scroller.scrollTop;
  showNewer();
});
new ResizeObserver(keepAtEnd).observe(scroller);
el("newer").addEventListener("click", () => { stick = true; unseen = 0; keepAtEnd(); showNewer(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) document.title = "agentd demo"; });

function showStatus() {
  const doing = { typing: "typing…", upload_document: "sending a file…", upload_photo: "sending a photo…", record_voice: "recording…" }[state.action];
  el("status").textContent = !connected ? "connecting…" : state.action ? doing || state.action.replaceAll("_", " ") + "…" : "bot";
}

function showState(next) {
  state = next;
  showStatus();
  el("drafts").replaceChildren(...(state.drafts || []).map((d) => make("li", "message", make("div", "bubble", formatted(d.text || "Thinking…", d.entities)))));
  showMenu();
  keepAtEnd();
}

let noticeTimer;
function notice(s) {
  const node = el("notice");
  node.textContent = s;
  node.hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { node.hidden = true; }, 5000);
}

// Writing

let menuOpen = false;
function showMenu() {
  const value = text.value.trim(), typed = /^\/[a-z0-9_]*$/.test(value) ? value.slice(1) : null;
  const fitting = (state.commands || []).filter((c) => menuOpen || (typed !== null && c.command.startsWith(typed)));
  menu.replaceChildren(...fitting.map((c) => make("li", "", button("", "", () => {
    menuOpen = false;
    submit("/" + c.command);
  }, make("b", "", "/" + c.command), " " + c.description))));
  menu.hidden = !fitting.length;
  el("commands").setAttribute("aria-expanded", String(!menu.hidden));
  el("commands").hidden = !(state.commands || []).length;
}

function startReply(m) {
  replyTo = m ? m.id : 0;
  el("replying").hidden = !m;
  el("replying-text").textContent = m ? "↩ " + (m.text || m.kind).slice(0, 80) : "";
  if (m) text.focus();
}

function fit() {
  text.rows = Math.min(8, Math.max(1, text.value.split("\n").length + Math.floor(text.value.length / 60)));
}

async function submit(s) {
  if (!s.trim()) return;
  const reply = replyTo;
  text.value = "";
  startReply(null);
  fit();
  showMenu();
  stick = true;
  try { await post("send", { text: s, replyTo: reply }); }
  catch (err) { notice("Not sent: " + err.message); text.value = s; }
  text.focus();
}

el("form").addEventListener("submit", (e) => { e.preventDefault(); submit(text.value); });
text.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); submit(text.value); }
  if (e.key === "Escape") { menuOpen = false; showMenu(); startReply(null); }
});
text.addEventListener("input", () => { fit(); showMenu(); });
el("commands").addEventListener("click", () => { menuOpen = !menuOpen; showMenu(); });
el("reply-cancel").addEventListener("click", () => startReply(null));

// Connection: the server tells everything anew on each connect.

const stream = new EventSource("events");
stream.addEventListener("hello", (e) => {
  const hello = JSON.parse(e.data);
  el("bot").textContent = hello.bot;
  for (const id of [...messages.keys()]) gone(id);
  connected = loading = true;
  setTimeout(() => { loading = false; }, 500);
  showStatus();
});
stream.addEventListener("message", (e) => put(JSON.parse(e.data)));
stream.addEventListener("gone", (e) => gone(JSON.parse(e.data)));
stream.addEventListener("state", (e) => showState(JSON.parse(e.data)));
stream.addEventListener("error", () => { connected = false; showStatus(); });
text.focus();
