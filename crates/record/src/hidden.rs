//! Characters that change how other text is shown, and how they are shown themselves.

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

/// The text with its hidden characters as JSON writes them, such as `\u202e`: two names that differ
/// do so on the screen.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_hidden(letter) {
            true => shown += &escape(letter),
            false => shown.push(letter),
        }
    }
    shown
}

/// The beginning of a text of another party, for a message.
pub fn shortened(text: &str, chars_max: usize) -> String {
    let mut shown: String = text.chars().take(chars_max).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Of a hidden character.
pub fn escape(letter: char) -> String {
    format!("\\u{:04x}", u32::from(letter))
}
