//! What a command must write to standard output.

/// The longest part of a line that is shown.
const SHOWN: usize = 60;
/// Lines that differ are found within so many bytes.
pub(crate) const OUTPUT_MAX: u64 = 64 << 20;

/// The first line in which an output is another one, in words.
pub(crate) fn difference(got: &[u8], expected: &str) -> Option<String> {
    if got == expected.as_bytes() {
        return None;
    }
    let expected: Vec<&[u8]> = expected.as_bytes().split(|byte| *byte == b'\n').collect();
    let got: Vec<&[u8]> = got.split(|byte| *byte == b'\n').collect();
    let same = got.iter().zip(&expected).take_while(|(got, expected)| got == expected).count();
    let shown = |lines: &[&[u8]]| match lines.get(same) {
        None => "its end".to_owned(),
        Some(line) => {
            let line = String::from_utf8_lossy(line);
            format!("`{}`", line.chars().take(SHOWN).collect::<String>().escape_debug())
        }
    };
    let (line, got, expected) = (same + 1, shown(&got), shown(&expected));
    Some(format!("line {line} of its output is {got}, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_other_line_is_named() {
        assert_eq!(difference(b"a\nb\n", "a\nb\n"), None);
        let of = |got: &[u8], expected| difference(got, expected).expect("a difference");
        assert_eq!(of(b"a\nc\n", "a\nb\n"), "line 2 of its output is `c`, expected `b`");
        assert_eq!(of(b"a", "a\n"), "line 2 of its output is its end, expected ``");
        assert_eq!(of(b"", "a\n"), "line 1 of its output is ``, expected `a`");
        assert_eq!(of(b"\xff", "a"), "line 1 of its output is `\u{fffd}`, expected `a`");
    }
}
