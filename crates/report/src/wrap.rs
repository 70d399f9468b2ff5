//! Fitting text to a width in terminal columns.
//!
//! Text of records can come from a failed worker, so control characters are removed: they could
//! move the cursor.

use std::borrow::Cow;

use fathom_record::{escape, is_hidden};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(crate) const NARROWEST: usize = 60;

/// A non-breaking blank, which keeps a number and its unit on one line.
pub(crate) const GLUE: char = '\u{a0}';

/// Terminal columns of a text without escape codes.
pub(crate) fn width_of(text: &str) -> usize {
    text.width()
}

/// The text with non-breaking blanks.
pub(crate) fn glued(text: &str) -> String {
    text.replace(' ', &GLUE.to_string())
}

/// The text in lines of at most `width` columns, the first indented by `first` and the others by
/// `rest`, each with a newline. A word longer than a line is broken, after
/// a comma if it has one.
pub fn wrapped(text: &str, width: usize, first: &str, rest: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut taken = width_of(first);
    let mut empty = true;
    for word in clean(text).split(' ').filter(|word| !word.is_empty()) {
        let is_long = width_of(rest) + width_of(word) > width;
        for (at, piece) in word.split_inclusive(|letter| is_long && letter == ',').enumerate() {
            let blank = usize::from(!empty && at == 0);
            if !empty && taken + blank + width_of(piece) > width {
                push_line(&mut lines, &line);
                (line, taken) = (rest.to_owned(), width_of(rest));
            } else if blank > 0 {
                line.push(' ');
                taken += 1;
            }
            empty = false;
            for letter in piece.chars() {
                let more = letter.width().unwrap_or(0);
                if taken + more > width {
                    push_line(&mut lines, &line);
                    (line, taken) = (rest.to_owned(), width_of(rest));
                }
                line.push(letter);
                taken += more;
            }
        }
    }
    if !empty {
        push_line(&mut lines, &line);
    }
    lines
}

/// The text cut to `width` columns, with `…` if something was cut.
pub fn cut(text: &str, width: usize) -> String {
    let text = clean(text);
    if width_of(&text) <= width {
        return text;
    }
    if width == 0 {
        return String::new();
    }
    let mut short = String::new();
    for letter in text.chars() {
        if width_of(&short) + letter.width().unwrap_or(0) + 1 > width {
            break;
        }
        short.push(letter);
    }
    short.push('…');
    short
}

fn push_line(lines: &mut String, line: &str) {
    lines.push_str(&line.replace(GLUE, " "));
    lines.push('\n');
}

/// Replaces control characters by blanks, and drops characters without width.
pub(crate) fn clean(text: &str) -> String {
    let seen = |letter: char| letter.is_control() || letter.width().unwrap_or(0) > 0;
    text.chars()
        .filter(|letter| seen(*letter) && (letter.is_control() || !is_hidden(*letter)))
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// The text for a terminal or a page: hidden characters as JSON writes them, such as `\u202e`, so
/// that a JSON document stays the same. Line breaks, tabs and the colours of views stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| !is_hidden(letter) || matches!(letter, '\n' | '\t');
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        match is_plain(letter) || (letter == ESCAPE && begins_color(&text[at + 1..])) {
            true => shown.push(letter),
            false => shown += &escape(letter),
        }
    }
    Cow::Owned(shown)
}

const ESCAPE: char = '\u{1b}';

/// Whether a colour follows the escape character, such as `[1;31m`.
fn begins_color(text: &str) -> bool {
    let codes = text.strip_prefix('[').unwrap_or_default();
    let end = codes.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
    end.starts_with('m')
}

/// With a capital letter first.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_uppercase().to_string() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_the_width() {
        let text = "a throttled 日本語日本語日本語 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa end";
        for width in 8..40 {
            for line in wrapped(text, width, "  ", "    ").lines() {
                assert!(width_of(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn long_names_are_broken_after_a_comma() {
        let wrapped = wrapped("a file.read{block=4096,state=warm,way=read}", 24, "", "  ");
        assert_eq!(wrapped, "a file.read{block=4096,\n  state=warm,way=read}\n");
    }

    #[test]
    fn glued_number_stays_with_its_unit() {
        let text = format!("takes {} or so", glued("165 ns"));
        assert_eq!(wrapped(&text, 10, "", ""), "takes\n165 ns or\nso\n");
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(wrapped("a\u{1b}[2Jb\r\nc\td", 40, "", ""), "a [2Jb c d\n");
        assert_eq!(cut("a\u{7}b\u{200b}c", 10), "a bc");
    }

    #[test]
    fn terminal_and_page_show_hidden_characters() {
        assert_eq!(
            visible("a\u{202e}b\u{9b}2J\u{1b}]0;x\u{7}"),
            r"a\u202eb\u009b2J\u001b]0;x\u0007"
        );
        let plain = "\u{1b}[1;31mred\u{1b}[0m é 日\n\tend";
        assert_eq!(visible(plain), plain);
        let json = serde_json::to_string("a\u{202e}\u{9b}").unwrap();
        assert_eq!(serde_json::from_str::<String>(&visible(&json)).unwrap(), "a\u{202e}\u{9b}");
    }

    #[test]
    fn cut_text_ends_with_an_ellipsis() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 5), "abcd…");
        assert_eq!([cut("abcdef", 1), cut("abcdef", 0)], ["…", ""]);
    }
}
