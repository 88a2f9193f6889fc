package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// badValue says what is wrong with a value, without repeating it.
type badValue string

func (b badValue) Error() string { return string(b) }

// allowList says who is answered. Its zero value is nobody.
type allowList struct {
	Everybody bool
	IDs       []int64 // people, and chats as negative ids; in the operator's order

	shared []int64 // ids left out because many people share them
}

// UnmarshalText reads "123, -100123" or "*". Anything else is an error that
// names the item by its position: a list that was half understood would let in
// the wrong people (case C112).
func (a *allowList) UnmarshalText(text []byte) error {
	if strings.TrimSpace(string(text)) == "*" {
		*a = allowList{Everybody: true}
		return nil
	}
	var list allowList
	for i, item := range strings.Split(string(text), ",") {
		item = strings.TrimSpace(item)
		id, err := strconv.ParseInt(item, 10, 64)
		switch {
		case item == "":
			return badValue(fmt.Sprintf("item %d is empty", i+1))
		case item == "*":
			return badValue(fmt.Sprintf("item %d is *, which must stand alone", i+1))
		case strings.HasPrefix(item, "@"):
			return badValue(fmt.Sprintf("item %d is a name; the bot tells people their id", i+1))
		case err != nil || id == 0:
			return badValue(fmt.Sprintf("item %d is not an id", i+1))
		case isShared(id):
			list.shared = append(list.shared, id)
		case !slices.Contains(list.IDs, id):
			list.IDs = append(list.IDs, id)
		}
	}
	*a = list
	return nil
}

// isShared reports whether Telegram puts id as sender on messages of many
// people: anonymous admins, channels, linked channels and service messages. Such
// an id in an allow-list would open the bot to anybody (case C092).
func isShared(id int64) bool {
	return id == 1087968824 || id == 136817688 || id == 777000
}

// jsonObject is a JSON object as the operator wrote it.
type jsonObject json.RawMessage

func (o *jsonObject) UnmarshalText(text []byte) error {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil {
		return badValue("it is not one")
	}
	*o = bytes.Clone(text)
	return nil
}

// parseDuration reads "90s" and "1h30m" as Go writes them, and bare seconds.
func parseDuration(value string) (any, error) {
	value = strings.TrimSpace(value)
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		value += "s"
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return nil, badValue("it is not a time")
	}
	return d, nil
}

var tokenPattern = regexp.MustCompile(`\d+:[A-Za-z0-9_-]{30,}`)

// findToken returns the one bot token in text, which may be quoted or be all of
// @BotFather's message (case C112).
func findToken(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", errors.New("expected a bot token (none is set): write /newbot to @BotFather in Telegram and set the token it gives you; `agentd demo` runs without one")
	}
	found := tokenPattern.FindAllString(text, -1)
	slices.Sort(found)
	switch found = slices.Compact(found); len(found) {
	case 0:
		return "", errors.New("expected a bot token, digits:letters, as @BotFather gives it (there is none in the value)")
	case 1:
		return found[0], nil
	default:
		return "", errors.New("expected one bot token (the value holds several)")
	}
}

func checkAPIURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("expected the URL of a Bot API server such as https://api.telegram.org (it is not an http or https URL)")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("expected the URL of a Bot API server such as https://api.telegram.org (it holds more than scheme, host and path)")
	case tokenPattern.MatchString(u.Path) || strings.HasSuffix(u.Path, "/bot"):
		return errors.New("expected the URL of a Bot API server such as https://api.telegram.org (leave out /bot and the token)")
	}
	return nil
}

func checkProxy(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return errors.New("expected a URL such as socks5://user:password@host:1080 (scheme http, https, socks5 or socks5h)")
	}
	return nil
}

// checkOllamaHost looks for what no reading can mend; what may be left out is
// the business of the client.
func checkOllamaHost(text string) error {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !isPort(u.Port(), "") {
		return errors.New("expected an address such as http://127.0.0.1:11434 or gpu-box:11434 (it cannot be read as one)")
	}
	return nil
}

func isListenAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	return err == nil && isPort(port)
}

// isPort reports whether text is a TCP port or one of others.
func isPort(text string, others ...string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil || slices.Contains(others, text)
}
