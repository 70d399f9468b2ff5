//! The names of a server on this host, which Host and Origin of a request must be.

use std::net::{IpAddr, Ipv6Addr};

use crate::head::split_port;

/// The names of this server, besides addresses and `localhost`.
#[derive(Clone, Debug)]
pub struct Names(Vec<String>);

impl Names {
    /// These and the host name.
    pub fn and_host(mut names: Vec<String>) -> Self {
        let own = rustix::system::uname();
        names.push(own.nodename().to_string_lossy().into_owned());
        Self(names)
    }

    /// Whether Host and Origin name this server: a page from elsewhere whose name was made to
    /// resolve to this address (DNS rebinding) must not reach it.
    pub fn are_in(&self, host: &[u8], origin: Option<&[u8]>) -> bool {
        let is_same = origin.is_none_or(|origin| origin.strip_prefix(b"http://") == Some(host));
        is_same && std::str::from_utf8(host).is_ok_and(|host| self.has(host))
    }

    /// An address, `localhost` or a known name, with or without a port.
    fn has(&self, host: &str) -> bool {
        let (name, port) = split_port(host);
        let in_brackets = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_address = match in_brackets {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => matches!(name.parse(), Ok(IpAddr::V4(_))),
        };
        let is_known = || self.0.iter().any(|known| known.eq_ignore_ascii_case(name));
        port.bytes().all(|b| b.is_ascii_digit())
            && (is_address || name.eq_ignore_ascii_case("localhost") || is_known())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_known_names_are_own() {
        let names = Names(vec!["box".to_owned()]);
        for host in ["127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:3284", "LocalHost:1", "BOX:2"] {
            assert!(names.has(host), "{host}");
        }
        let foreign =
            ["", "evil.example", "box.evil.example", "::1", "[box]", "localhost.", "box:x", "[::1"];
        for host in foreign {
            assert!(!names.has(host), "{host}");
        }
    }

    #[test]
    fn page_of_another_origin_is_foreign() {
        let names = Names(Vec::new());
        let of = |origin: &[u8]| names.are_in(b"127.0.0.1:80", Some(origin));
        assert!(of(b"http://127.0.0.1:80") && names.are_in(b"127.0.0.1:80", None));
        for origin in [&b"http://127.0.0.1:81"[..], b"http://evil.example", b"null", b""] {
            assert!(!of(origin));
        }
    }
}
