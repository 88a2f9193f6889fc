package ollama

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// parseHost reads an address by the convention of OLLAMA_HOST
// (ollama/envconfig.Host): without a scheme it is http and port 11434, with one
// the scheme's own port. What people paste besides is taken too (C112): trailing
// slashes, the /v1 of the OpenAI-compatible routes, /api, quotes. The address
// that a server listens on, 0.0.0.0 or [::], means this machine. Errors never
// hold the value, which may carry a password.
func parseHost(s string) (*url.URL, error) {
	s = strings.Trim(s, " \t\r\n\"'")
	port := "11434"
	scheme, rest, ok := strings.Cut(s, "://")
	switch scheme = strings.ToLower(scheme); {
	case !ok:
		scheme, rest = "http", s
		if s == "ollama.com" {
			scheme, port = "https", "443"
		}
	case scheme == "http":
		port = "80"
	case scheme == "https":
		port = "443"
	default:
		return nil, errors.New("address of Ollama: the scheme must be http or https")
	}
	if strings.ContainsAny(rest, "?# \t\r\n") {
		return nil, errors.New("address of Ollama: only scheme, host, port and path are expected")
	}
	hostport, path, _ := strings.Cut(rest, "/")
	u := &url.URL{Scheme: scheme}
	if at := strings.LastIndexByte(hostport, '@'); at >= 0 {
		user, password, has := strings.Cut(hostport[:at], ":")
		u.User = url.User(user)
		if has {
			u.User = url.UserPassword(user, password)
		}
		hostport = hostport[at+1:]
	}

	host := hostport
	if h, p, err := net.SplitHostPort(hostport); err == nil {
		host = h
		if p != "" {
			port = p
		}
	} else if bare := strings.Trim(hostport, "[]"); strings.Contains(bare, ":") {
		if _, err := netip.ParseAddr(bare); err != nil {
			return nil, errors.New("address of Ollama: host:port expected")
		}
		host = bare
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, errors.New("address of Ollama: the port must be a number from 1 to 65535")
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	u.Host = net.JoinHostPort(host, port)

	path = "/" + strings.Trim(path, "/")
	for _, suffix := range []string{"/v1", "/api"} {
		path = strings.TrimSuffix(path, suffix)
	}
	u.Path = strings.TrimRight(path, "/")
	return u, nil
}

// local says whether a host is this machine, or in a network that a proxy would
// not reach: a private address, or a name without a dot, such as a container's.
func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".internal")
	}
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
}
