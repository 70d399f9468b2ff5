//! Where a server is: from a URL or a name to addresses.

use std::io::{Error, Result};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};

/// `http://HOST[:PORT][/PATH]`, or `https://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub is_https: bool,
    /// A name or an address, without the brackets of IPv6, with its zone: `fe80::1%eth0`.
    pub host: String,
    pub port: u16,
    /// Begins with `/`; may have a query.
    pub path: String,
}

/// Why a URL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("`{url}`: {why}")]
    Malformed { url: String, why: String },
    #[error("`{url}`: `{got}` is written {code} in a URL")]
    Unencoded { url: String, got: char, code: String },
    #[error("`{0}`: a fragment (`#…`) is not sent; leave it out, or write %23 for a # of the path")]
    Fragment(String),
    /// Has a password, perhaps.
    #[error(
        "USER:PASSWORD@ in a URL is not sent; give it as a field, \"Authorization: Basic \
         $(printf %s USER:PASSWORD | base64 -w0)\""
    )]
    User,
}

impl Url {
    pub fn parse(text: &str) -> std::result::Result<Self, UrlError> {
        let wrong = |why: String| UrlError::Malformed { url: text.to_owned(), why };
        let is_scheme = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric());
        let parts = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme));
        let (scheme, rest) = parts.ok_or_else(|| without_scheme(text))?;
        let is_https = scheme.eq_ignore_ascii_case("https");
        if !is_https && !scheme.eq_ignore_ascii_case("http") {
            return Err(wrong(format!("scheme `{scheme}`, expected http or https")));
        }
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if authority.contains('@') {
            return Err(UrlError::User);
        }
        if path.contains('#') {
            return Err(UrlError::Fragment(text.to_owned()));
        }
        if let Some(got) = path.chars().find(|c| !c.is_ascii_graphic() && !c.is_control()) {
            let code = encoded(got.encode_utf8(&mut [0; 4]));
            return Err(UrlError::Unencoded { url: text.to_owned(), got, code });
        }
        let (host, port) = parse_host(authority, usual_port(is_https)).map_err(wrong)?;
        let is_bracketed = authority.starts_with('[');
        if !is_bracketed && host.contains(':') {
            return Err(wrong(format!("an IPv6 address without brackets, expected [{host}]")));
        }
        if port == 0 {
            return Err(wrong(of_port("0")));
        }
        if path.contains(char::is_control) {
            return Err(wrong("a control character, which is written %09 or the like".to_owned()));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        // The zone of an address begins with `%`, which RFC 6874 has encoded.
        let host = if is_bracketed { host.replacen("%25", "%", 1) } else { host.to_owned() };
        Ok(Self { is_https, host, port, path })
    }

    /// Value of the field Host.
    pub fn authority(&self) -> String {
        // A zone means nothing to another host.
        let host = self.host.split('%').next().unwrap_or_default();
        let host = if host.contains(':') { format!("[{host}]") } else { self.host.clone() };
        if self.port == usual_port(self.is_https) { host } else { format!("{host}:{}", self.port) }
    }

    /// Whether scheme, host and port are the same (RFC 9110 4.3.1).
    pub fn has_origin_of(&self, other: &Self) -> bool {
        (self.is_https, self.port) == (other.is_https, other.port)
            && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// The URL that a reference means here, without its fragment (RFC 3986 5.2). Spaces and letters
    /// that had to be encoded are.
    pub fn joined(&self, reference: &str) -> Option<Self> {
        let reference = &encoded(reference.split('#').next().unwrap_or_default());
        let scheme = reference.split(['/', '?']).next().is_some_and(|first| first.ends_with(':'));
        let absolute = match &reference[..] {
            "" => return None,
            text if scheme => text.to_owned(),
            text if text.starts_with("//") => {
                format!("http{}:{text}", if self.is_https { "s" } else { "" })
            }
            text => {
                let path = self.path.split('?').next().unwrap_or_default();
                let folder = &path[..=path.rfind('/').unwrap_or(0)];
                let path = match text.chars().next() {
                    Some('/') => text.to_owned(),
                    Some('?') => format!("{path}{text}"),
                    _ => format!("{folder}{text}"),
                };
                let port = self.port;
                let host = if self.host.contains(':') {
                    format!("[{}]", self.host)
                } else {
                    self.host.clone()
                };
                format!("http{}://{host}:{port}{path}", if self.is_https { "s" } else { "" })
            }
        };
        let url = Self::parse(&absolute).ok()?;
        Some(Self { path: without_dots(&url.path), ..url })
    }

    /// All but the path.
    pub fn origin(&self) -> String {
        format!("http{}://{}", if self.is_https { "s" } else { "" }, self.authority())
    }
}

/// The text with its spaces and letters beyond ASCII as `%20`.
fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b' ' | 0x80.. => format!("%{byte:02X}"),
        _ => char::from(byte).to_string(),
    };
    text.bytes().map(one).collect()
}

/// A path whose segments `.` and `..` are resolved (RFC 3986 5.2.4).
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let (mut kept, mut ends_in_folder) = (Vec::new(), false);
    for segment in path.split('/').skip(1) {
        ends_in_folder = [".", ".."].contains(&segment);
        match segment {
            "." => {}
            ".." => _ = kept.pop(),
            name => kept.push(name),
        }
    }
    kept.extend(ends_in_folder.then_some(""));
    format!("/{}{query}", kept.join("/"))
}

fn usual_port(is_https: bool) -> u16 {
    if is_https { 443 } else { 80 }
}

/// What is wrong where a URL has no scheme: it may have a password.
fn without_scheme(text: &str) -> UrlError {
    let authority = text.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return UrlError::User;
    }
    let why = match authority.split_once(':') {
        Some((scheme @ ("http" | "https"), _)) => format!("no // after {scheme}:"),
        _ if authority.is_empty() => "expected http://HOST[:PORT][/PATH], or https".to_owned(),
        _ => format!("no scheme, expected http://{text}, or https"),
    };
    UrlError::Malformed { url: text.to_owned(), why }
}

/// The parts of `host`, `host:port`, `[::1]`, `[::1]:port` or `::1`.
pub fn host_and_port(text: &str, default: u16) -> Option<(&str, u16)> {
    parse_host(text, default).ok()
}

/// As [`host_and_port`].
///
/// # Errors
/// What is wrong with it.
pub fn parse_host(text: &str, default: u16) -> std::result::Result<(&str, u16), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("[ of an IPv6 address without its ]")?;
            let port = (!rest.is_empty()).then(|| rest.strip_prefix(':').ok_or(rest)).transpose();
            (host, port.map_err(|rest| format!("`{rest}` after ], expected :PORT"))?)
        }
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("no host, expected HOST or HOST:PORT".to_owned());
    }
    if !is_host(host) {
        let got = host.chars().find(|c| !is_allowed(*c));
        let got = got.map_or(format!("{} bytes", host.len()), |got| format!("`{got}`"));
        return Err(format!("{got} in the host, expected 1 to 255 letters, digits, - . and _"));
    }
    let port = port.map_or(Ok(default), |port| port.parse().map_err(|_| of_port(port)));
    Ok((host, port?))
}

fn of_port(got: &str) -> String {
    format!("port `{got}`, expected 1 to 65535")
}

/// Whether a text can be a name or an address.
pub fn is_host(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.chars().all(is_allowed)
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.:%".contains(c)
}

/// At least one address; a zone becomes the number of its interface.
///
/// # Errors
/// If the name is unknown.
pub fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs().map(Vec::from_iter);
    let found = found.or_else(|error| loopback(host, port).ok_or(error))?;
    if found.is_empty() { Err(Error::other("the name has no address")) } else { Ok(found) }
}

/// A system without /etc/hosts may not know `localhost` (RFC 6761 6.3).
fn loopback(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    let both = [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    host.eq_ignore_ascii_case("localhost").then(|| both.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_host_port_and_path() {
        let url = |text| Url::parse(text).map(|it| (it.authority(), it.port, it.path)).unwrap();
        let parts = |host: &str, port, path: &str| (host.to_owned(), port, path.to_owned());
        assert_eq!(url("http://a.b"), parts("a.b", 80, "/"));
        assert_eq!(url("HTTP://a:81/x?y=1"), parts("a:81", 81, "/x?y=1"));
        assert_eq!(url("http://[::1]:8080/f"), parts("[::1]:8080", 8080, "/f"));
        assert_eq!(url("http://a?q"), parts("a", 80, "/?q"));
        assert_eq!(url("HTTPS://a/x"), parts("a", 443, "/x"));
        assert_eq!(url("https://a:80/"), parts("a:80", 80, "/"));
        assert_eq!(url("http://a:443/"), parts("a:443", 443, "/"));
        let origin = |text| Url::parse(text).unwrap().origin();
        assert_eq!(
            ["https://a:443/x", "http://[::1]:81"].map(origin),
            ["https://a", "http://[::1]:81"]
        );
        for zoned in ["http://[fe80::1%25v0]:81/f", "http://[fe80::1%v0]:81/f"] {
            assert_eq!(url(zoned), parts("[fe80::1]:81", 81, "/f"), "no zone in Host");
            assert_eq!(Url::parse(zoned).unwrap().host, "fe80::1%v0");
        }
    }

    #[test]
    fn references_are_joined() {
        let url = |text| Url::parse(text).unwrap();
        for (base, reference, expected) in [
            ("http://a:81/x/y?q", "/z", Some("http://a:81/z")),
            ("http://a:81/x/y?q", "z?a#b", Some("http://a:81/x/z?a")),
            ("http://a:81/x/y?q", "?r", Some("http://a:81/x/y?r")),
            ("https://a/x", "//b/v", Some("https://b/v")),
            ("https://a/x", "http://a/v", Some("http://a/v")),
            ("http://[fe80::1%v0]/x", "y", Some("http://[fe80::1%v0]/y")),
            ("http://a/x", "ftp://a/", None),
            ("http://a/x", "", None),
            ("http://a/x", "a b\u{fc}?c d", Some("http://a/a%20b%C3%BC?c%20d")),
            ("http://a/b/c/start", "../../end", Some("http://a/end")),
            ("http://a/b/c", "./../../../x/.", Some("http://a/x/")),
            ("http://a/b", "/c/./d/../e?f=../g", Some("http://a/c/e?f=../g")),
        ] {
            assert_eq!(url(base).joined(reference), expected.map(url), "{base} {reference}");
        }
    }

    #[test]
    fn malformed_urls_are_refused() {
        for text in [
            "localhost:80",
            "ftp://a",
            "http://",
            "http://a:0/",
            "http://a:99999/",
            "http://[::1",
            "http://::1/",
            "http://u@a/",
            "http://a/b c",
            "http://a/#x",
            "http://a:8x/",
            "http://[::1]x/",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
        for (text, words) in [
            ("http://a/b c", "` ` is written %20"),
            ("http://a/\u{fc}", "`\u{fc}` is written %C3%BC"),
            ("http://a/b#c", "a fragment"),
            ("http://me:secret@a/", "Authorization: Basic"),
            ("me:secret@a/", "Authorization: Basic"),
            ("localhost:80/x?u=http://y", "no scheme, expected http://localhost:80/x?u=http://y"),
            ("/x", "expected http://HOST[:PORT]"),
            ("http:/a", "no // after http:"),
            ("htp://x", "scheme `htp`, expected http or https"),
            ("http://a:99999/", "port `99999`, expected 1 to 65535"),
            ("http://a:0/", "port `0`, expected"),
            ("http://a:/", "port ``, expected"),
            ("http://:80/", "`http://:80/`: no host, expected HOST"),
            ("http:///x", "no host"),
            ("http://[]/", "no host"),
            ("http://[::1/", "[ of an IPv6 address without its ]"),
            ("http://[::1]8/", "`8` after ], expected :PORT"),
            ("http://::1/", "without brackets, expected [::1]"),
            ("http://a b/", "` ` in the host, expected"),
            ("http://a/b\tc", "a control character"),
        ] {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn host_accepts_names_and_addresses() {
        for (text, expected) in [
            ("bench-4", ("bench-4", 3284)),
            ("10.0.0.2:80", ("10.0.0.2", 80)),
            ("[::1]", ("::1", 3284)),
            ("[::1]:81", ("::1", 81)),
            ("fe80::1%eth0", ("fe80::1%eth0", 3284)),
        ] {
            assert_eq!(host_and_port(text, 3284), Some(expected), "{text}");
        }
        for text in ["", ":80", "a:", "a:70000", "[::1", "[::1]80", "a b", "a,b", "http://a"] {
            assert_eq!(host_and_port(text, 3284), None, "{text}");
        }
    }

    #[test]
    fn zone_and_localhost_are_resolved() {
        let zoned = resolve("fe80::1%lo", 81).unwrap();
        assert!(matches!(zoned[..], [SocketAddr::V6(six)] if six.scope_id() > 0), "{zoned:?}");
        assert!(resolve("localhost", 81).unwrap().iter().all(|it| it.ip().is_loopback()));
        let both = loopback("LocalHost", 81).unwrap();
        assert_eq!(format!("{both:?}"), "[127.0.0.1:81, [::1]:81]");
        assert_eq!(loopback("localhost.invalid", 81), None);
    }
}
