//! From the target of a request to a path below the folder.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::refusal::{Refusal, Refused};

/// Bytes that stay as they are in a path: unreserved ones and the slash.
const IN_PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Where the resources of the service itself are.
pub(crate) const CONTROL: &[u8] = b".fathom";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceTarget<'t> {
    /// A path relative to the folder; empty for the folder itself. With a slash at its end if the
    /// target has one.
    File(Cow<'t, [u8]>),
    /// What follows `/.fathom/`.
    Control(Cow<'t, str>),
}

impl<'t> ServiceTarget<'t> {
    /// Decodes a target, which begins with a slash and is visible ASCII. The query is ignored.
    pub(crate) fn parse(target: &'t str) -> Result<Self, Refused> {
        let path = target.split('?').next().unwrap_or_default().trim_start_matches('/');
        if !are_escapes_valid(path) {
            return Err(Refusal::Path.close());
        }
        let decoded: Cow<'t, [u8]> = percent_decode_str(path).into();
        // An escaped slash would be a separator to the kernel, and another path to a proxy.
        let slashes = |bytes: &[u8]| bytes.iter().filter(|&&b| b == b'/').count();
        let is_split = slashes(&decoded) != slashes(path.as_bytes());
        let is_dot = |part: &[u8]| part == b"." || part == b"..";
        if is_split || decoded.contains(&0) || decoded.split(|&b| b == b'/').any(is_dot) {
            return Err(Refusal::Path.close());
        }
        let (first, rest) = match decoded.iter().position(|&b| b == b'/') {
            Some(at) => (&decoded[..at], &decoded[at + 1..]),
            None => (&decoded[..], &b""[..]),
        };
        if first == CONTROL {
            return Ok(Self::Control(String::from_utf8_lossy(rest).into_owned().into()));
        }
        Ok(Self::File(decoded))
    }
}

pub(crate) fn are_escapes_valid(path: &str) -> bool {
    path.split('%').skip(1).all(|after| {
        let after = after.as_bytes();
        after.len() >= 2 && after[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

/// A path as part of a URL.
pub(crate) fn encode(path: &[u8]) -> String {
    percent_encode(path, IN_PATH).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(target: &str) -> Option<Vec<u8>> {
        match ServiceTarget::parse(target) {
            Ok(ServiceTarget::File(path)) => Some(path.into_owned()),
            _ => None,
        }
    }

    #[test]
    fn targets_become_relative_paths() {
        for (target, path) in [
            ("/", &b""[..]),
            ("/a/b.txt?x=/../", b"a/b.txt"),
            ("//etc//passwd", b"etc//passwd"),
            ("/a%20b/%C3%A9/", b"a b/\xc3\xa9/"),
            ("/%ff", b"\xff"),
            ("/..a/b../...", b"..a/b../..."),
        ] {
            assert_eq!(file(target).as_deref(), Some(path), "{target}");
        }
    }

    #[test]
    fn traversal_and_bad_escapes_are_refused() {
        for target in [
            "/..",
            "/../x",
            "/a/../b",
            "/a/..",
            "/.",
            "/./a",
            "/%2e%2e/x",
            "/%2E./x",
            "/.%2e",
            "/a/%2e%2e%2fb",
            "/a%2fb",
            "/%2fetc",
            "/a%00b",
            "/%",
            "/%4",
            "/%zz",
            "/a/%2e/b",
        ] {
            assert_eq!(ServiceTarget::parse(target), Err(Refusal::Path.close()), "{target}");
        }
    }

    #[test]
    fn control_is_recognised_in_every_spelling() {
        for target in ["/.fathom/list", "//.fathom/list", "/%2efathom/list", "/.f%61thom/list?x"] {
            assert_eq!(
                ServiceTarget::parse(target),
                Ok(ServiceTarget::Control("list".into())),
                "{target}"
            );
        }
        assert_eq!(ServiceTarget::parse("/.fathom"), Ok(ServiceTarget::Control("".into())));
        assert_eq!(file("/.fathomx/list").as_deref(), Some(&b".fathomx/list"[..]));
    }

    #[test]
    fn encoded_paths_decode_to_themselves() {
        for path in [&b"a b"[..], b"%41", b"\xff\x01?#", b"d/e<>&\"'"] {
            let target = format!("/{}", encode(path));
            assert_eq!(file(&target).as_deref(), Some(path), "{target}");
        }
    }
}
