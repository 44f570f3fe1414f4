package process

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// GuardHost serves only requests that no foreign web page has made, for servers without
// access control whose address a browser can reach. It passes a request on to next if
//
//   - its Host is an IP address, localhost, or one of the allowed names: a page whose name was
//     rebound to this machine's address sends its own name, and
//   - it is not a cross-origin request to change something, as http.CrossOriginProtection tells.
//
// Other requests are answered by refuse, with a status and a message that names the remedy.
func GuardHost(next http.Handler, allowed []string, refuse func(w http.ResponseWriter, status int, message string)) http.Handler {
	names := []string{"localhost"}
	for _, name := range allowed {
		names = append(names, canonicalHost(name))
	}
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch host := hostOf(r.Host); {
		case !isAddress(host) && !slices.Contains(names, canonicalHost(host)):
			refuse(w, http.StatusMisdirectedRequest, "this server does not serve the host "+quote(host)+
				": use an IP address or localhost, or allow the name where the server is started, with --allow-host if it has that flag")
		case origins.Check(r) != nil:
			refuse(w, http.StatusForbidden, "this server does not serve web pages of another origin")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hostOf returns the name or address of an HTTP Host without its port and brackets.
func hostOf(host string) string { return (&url.URL{Host: host}).Hostname() }

// canonicalHost returns a name in lower case without the dot of the DNS root.
func canonicalHost(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// quote bounds the text that a message repeats.
func quote(text string) string {
	const most = 100
	if len(text) > most {
		text = text[:most]
	}
	return `"` + strings.ToValidUTF8(text, "") + `"`
}
