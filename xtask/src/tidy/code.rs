//! A scanner of Rust text: separates code from comments and string literals. It is no parser, and
//! keeps lines and columns.

/// The lines of a Rust file, by kind of text.
#[derive(Debug, Default)]
pub(super) struct Code {
    /// The code; comments and the contents of literals are replaced by spaces.
    pub(super) lines: Vec<String>,
    /// The contents of the string literals of each line, each with its closing quote.
    pub(super) literals: Vec<String>,
    /// Whether part of the line is in a raw string (a table or a fixture).
    pub(super) raw: Vec<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum CodeState {
    Code,
    LineComment,
    BlockComment(u32),
    Text,
    /// With the number of `#` before and after it.
    RawText(usize),
    Character,
}

impl Code {
    pub(super) fn from_text(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let mut code = Self::default();
        code.begin_line();
        let mut state = CodeState::Code;
        let mut at = 0;
        while at < characters.len() {
            if characters[at] == '\n' {
                if state == CodeState::LineComment {
                    state = CodeState::Code;
                }
                code.begin_line();
                at += 1;
            } else {
                let (length, next) = step(&characters, at, state);
                code.push(&characters[at..at + length], state, next);
                at += length;
                state = next;
            }
            if let (CodeState::RawText(_), Some(raw)) = (state, code.raw.last_mut()) {
                *raw = true;
            }
        }
        code
    }

    fn begin_line(&mut self) {
        self.lines.push(String::new());
        self.literals.push(String::new());
        self.raw.push(false);
    }

    /// Adds characters that were read in `state` and led to `next`.
    fn push(&mut self, characters: &[char], state: CodeState, next: CodeState) {
        let line = self.lines.last_mut().expect("a line has begun");
        if matches!(state, CodeState::Text | CodeState::RawText(_)) {
            self.literals.last_mut().expect("a line has begun").extend(characters);
        }
        let is_comment = matches!(next, CodeState::LineComment | CodeState::BlockComment(_));
        let is_code = state == CodeState::Code && !is_comment;
        for &character in characters {
            line.push(if is_code { character } else { ' ' });
        }
    }

    /// The code as one text, for rules about more than one line.
    pub(super) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// The length of the token at `at`, and the state after it.
fn step(characters: &[char], at: usize, state: CodeState) -> (usize, CodeState) {
    let here = characters[at];
    let next = characters.get(at + 1).copied();
    match state {
        CodeState::Code => match (here, next) {
            ('/', Some('/')) => (2, CodeState::LineComment),
            ('/', Some('*')) => (2, CodeState::BlockComment(1)),
            ('"', _) => (1, CodeState::Text),
            ('\'', Some('\\')) => (1, CodeState::Character),
            ('\'', Some(_)) if characters.get(at + 2) == Some(&'\'') => (1, CodeState::Character),
            ('r', _) => raw_text(characters, at),
            _ => (1, CodeState::Code),
        },
        CodeState::BlockComment(depth) => match (here, next) {
            ('/', Some('*')) => (2, CodeState::BlockComment(depth + 1)),
            ('*', Some('/')) if depth == 1 => (2, CodeState::Code),
            ('*', Some('/')) => (2, CodeState::BlockComment(depth - 1)),
            _ => (1, state),
        },
        // A backslash escapes the next character; a line break is handled by the caller.
        CodeState::Text | CodeState::Character
            if here == '\\' && next.is_some_and(|c| c != '\n') =>
        {
            (2, state)
        }
        CodeState::Text if here == '"' => (1, CodeState::Code),
        CodeState::Character if here == '\'' => (1, CodeState::Code),
        CodeState::RawText(hashes) if here == '"' => {
            let closes = characters[at + 1..].iter().take(hashes).filter(|c| **c == '#').count();
            if closes == hashes { (1 + hashes, CodeState::Code) } else { (1, state) }
        }
        _ => (1, state),
    }
}

/// `r"`, `r#"`, `br"` or `cr"`; not the last `r` of another word.
fn raw_text(characters: &[char], at: usize) -> (usize, CodeState) {
    let before = &characters[..at];
    let word: String =
        before.iter().rev().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
    let hashes = characters[at + 1..].iter().take_while(|c| **c == '#').count();
    let opens = characters.get(at + 1 + hashes) == Some(&'"');
    if opens && (word.is_empty() || word == "b" || word == "c") {
        (2 + hashes, CodeState::RawText(hashes))
    } else {
        (1, CodeState::Code)
    }
}

/// Byte offsets of `word` in `text`, whole words only.
pub(super) fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let code = Code::from_text("a(\"dbg!\"); // dbg!\nb /* x /* y */ z */ c\n");
        assert_eq!(code.lines[0].trim_end(), "a(\"     );");
        assert_eq!(code.lines[1].split_whitespace().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(code.lines[1].len(), "b /* x /* y */ z */ c".len());
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        let code =
            Code::from_text("fn f<'a>(x: &'a str) -> bool { x.starts_with('{') && '\\'' < '}' }");
        assert_eq!(code.lines[0].matches('{').count(), 1);
        assert_eq!(code.lines[0].matches('}').count(), 1);
        assert!(code.lines[0].contains("&'a str"));
    }

    #[test]
    fn raw_string_ends_at_its_own_hashes() {
        let code = Code::from_text("let t = r#\"a \" {\nb\"#; x(br\"{\"); var\"}\";");
        assert_eq!(code.raw, [true, true]);
        assert!(!code.text().contains('{'), "{}", code.text());
        assert!(code.text().contains("x("));
    }

    #[test]
    fn escaped_quote_does_not_end_a_string() {
        let code = Code::from_text("s(\"a\\\"b { \\\n  c\"); d");
        assert!(!code.text().contains('{'));
        assert!(code.lines[1].ends_with("d"));
    }

    #[test]
    fn whole_words_only_are_matched() {
        assert_eq!(words("unsafe unsafe_code", "unsafe").collect::<Vec<_>>(), [0]);
    }
}
