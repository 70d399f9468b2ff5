//! The server's address, from a URL.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use fathom_metric::notation::NotationError;

/// `http://HOST[:PORT][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// A name or an address, without the brackets of IPv6, with its zone: `fe80::1%eth0`.
    pub host: String,
    pub port: u16,
    /// Begins with `/`; may have a query.
    pub path: String,
}

/// Why a URL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("{0}: https is not supported, because it would measure cryptography; use http://")]
    Tls(String),
    #[error(transparent)]
    Malformed(#[from] NotationError),
}

impl Url {
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let wrong = || NotationError::new(text, "http://HOST[:PORT][/PATH]");
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        if scheme.eq_ignore_ascii_case("https") {
            return Err(UrlError::Tls(text.to_owned()));
        }
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(wrong)?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
            None if port.is_empty() => 80,
            None => return Err(wrong().into()),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        let is_path = |c: char| c.is_ascii_graphic() && c != '#';
        let is_right = scheme.eq_ignore_ascii_case("http")
            && !host.is_empty()
            && host.chars().all(is_host)
            && path.chars().all(is_path);
        if !is_right {
            return Err(wrong().into());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        // The zone of an address begins with `%`, which RFC 6874 has encoded.
        let is_address = authority.starts_with('[');
        let host = if is_address { host.replacen("%25", "%", 1) } else { host.to_owned() };
        Ok(Self { host, port, path })
    }

    /// Value of the field Host.
    pub fn authority(&self) -> String {
        // A zone means nothing to another host.
        let host = self.host.split('%').next().unwrap_or_default();
        let host = if host.contains(':') { format!("[{host}]") } else { self.host.clone() };
        if self.port == 80 { host } else { format!("{host}:{}", self.port) }
    }

    /// The first address that accepts a connection, which is closed at once.
    ///
    /// # Errors
    /// If the name is unknown, or no address accepts one.
    pub fn connect(&self, timeout: Duration) -> std::io::Result<SocketAddr> {
        let mut last = std::io::Error::other("no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(_) => return Ok(address),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub fn is_loopback(&self, address: &SocketAddr) -> bool {
        match address.ip() {
            IpAddr::V6(six) => {
                six.to_ipv4_mapped().map_or(six.is_loopback(), |it| it.is_loopback())
            }
            IpAddr::V4(four) => four.is_loopback(),
        }
    }
}

/// The paths of a pattern: every number of `{0..99}`, with its leading zeroes.
pub fn expand(pattern: &str) -> Result<Vec<String>, NotationError> {
    let wrong = || NotationError::new(pattern, "a path with one range, such as /f{0..9999}");
    let Some((head, rest)) = pattern.split_once('{') else { return Ok(vec![pattern.to_owned()]) };
    let (range, tail) = rest.split_once('}').ok_or_else(wrong)?;
    let (from, to) = range.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let (first, last) = (number(from)?, number(to)?);
    if first > last || last - first >= PATHS_MAX || tail.contains('{') {
        return Err(wrong());
    }
    let width = if from.starts_with('0') && from.len() > 1 { from.len() } else { 0 };
    Ok((first..=last).map(|at| format!("{head}{at:0width$}{tail}")).collect())
}

/// Most paths of a pattern or list.
pub const PATHS_MAX: u32 = 1 << 20;

/// An encoded path of a file listing as the target of a request; what may not be in one is encoded.
pub fn encoded(path: &str) -> String {
    let mut text = String::new();
    if !path.starts_with('/') {
        text.push('/');
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@%".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text += &format!("%{byte:02X}");
        }
    }
    text
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
        for zoned in ["http://[fe80::1%25v0]:81/f", "http://[fe80::1%v0]:81/f"] {
            assert_eq!(url(zoned), parts("[fe80::1]:81", 81, "/f"), "no zone in Host");
            assert_eq!(Url::parse(zoned).unwrap().host, "fe80::1%v0");
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
            "http://u@a/",
            "http://a/b c",
            "http://a/#x",
            "http://a:8x/",
            "http://[::1]x/",
        ] {
            assert!(matches!(Url::parse(text), Err(UrlError::Malformed(_))), "{text}");
        }
        let text = Url::parse("https://a/").unwrap_err().to_string();
        assert!(text.contains("https is not supported"), "{text}");
    }

    #[test]
    fn pattern_lists_every_number() {
        assert_eq!(expand("/f{8..11}").unwrap(), ["/f8", "/f9", "/f10", "/f11"]);
        assert_eq!(expand("/f{008..010}.x").unwrap(), ["/f008.x", "/f009.x", "/f010.x"]);
        assert_eq!(expand("/plain").unwrap(), ["/plain"]);
        for text in ["/{2..1}", "/{1}", "/{a..b}", "/{1..2", "/{0..1}{0..1}", "/{0..9999999}"] {
            assert!(expand(text).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_are_not_encoded_twice() {
        assert_eq!(encoded("a%20b/ü ?"), "/a%20b/%C3%BC%20%3F");
        assert_eq!(encoded("/f1.bin"), "/f1.bin");
    }
}
