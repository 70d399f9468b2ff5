//! The paths of requests: from a pattern, or from a list of files.

use fathom_metric::notation::NotationError;
use fathom_record::shortened;

/// The paths of a pattern: every number of `{0..99}`, with its leading zeroes.
pub fn expand(pattern: &str) -> Result<Vec<String>, NotationError> {
    let wrong =
        || NotationError::new(&shown(pattern), "a path with one range, such as /f{0..9999}");
    let Some((head, rest)) = pattern.split_once('{') else { return Ok(vec![pattern.to_owned()]) };
    let (range, tail) = rest.split_once('}').ok_or_else(wrong)?;
    let (from, to) = range.split_once("..").ok_or_else(wrong)?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if !is_number(from) || !is_number(to) || tail.contains('{') {
        return Err(wrong());
    }
    let beyond = || {
        let what = format!("at most {PATHS_MAX} paths, with numbers up to {}", u32::MAX);
        NotationError::new(&shown(pattern), what)
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| beyond());
    let (first, last) = (number(from)?, number(to)?);
    if first > last {
        return Err(wrong());
    }
    if last - first >= PATHS_MAX {
        return Err(beyond());
    }
    let width = if from.starts_with('0') && from.len() > 1 { from.len() } else { 0 };
    let bytes = u64::from(last - first + 1) * (head.len() + width + tail.len()) as u64;
    if width > DIGITS_MAX || bytes > BYTES_MAX {
        let what = "at most 10 digits a number, and 256 MiB of paths";
        return Err(NotationError::new(&shown(pattern), what));
    }
    Ok((first..=last).map(|at| format!("{head}{at:0width$}{tail}")).collect())
}

/// Characters of a path in a message.
const SHOWN_MAX: usize = 120;

/// A path in a message.
pub fn shown(path: &str) -> String {
    shortened(path, SHOWN_MAX)
}

/// Those of a `u32`.
const DIGITS_MAX: usize = 10;
/// Bytes of all paths of a pattern without their numbers, at most.
const BYTES_MAX: u64 = 256 << 20;
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
