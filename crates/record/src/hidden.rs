//! Characters that change how other text is shown.

/// Whether a character of another party's text must not reach a terminal or a page: a control
/// character, or a mark that reorders or hides what is around it.
pub fn is_hidden(letter: char) -> bool {
    let is_mark = matches!(
        letter,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}'
    );
    is_mark || letter.is_control()
}
