//! Splitting a command line into words without a shell, as one would split it.

/// Why a command line needs a shell, or is no command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WordsError {
    #[error("is empty")]
    Empty,
    #[error("the quote {0} is not closed")]
    OpenQuote(char),
    #[error("ends with a backslash")]
    OpenEscape,
    #[error(
        "{0} is shell syntax and no shell is used; write `sh -c '…'` (bench: --shell sh), or quote \
         it for the program"
    )]
    Syntax(char),
    #[error("`{0}` sets a variable, which a shell does; write `env {0} …`, or add --shell sh")]
    Variable(String),
}

/// What a shell would act upon outside quotes. Patterns with `?` and `[` are left out: they occur
/// in URLs and tests, and mean themselves where no file matches.
const SYNTAX: &str = "|&;<>()$`*\n";

/// The words of a command line. Quotes and backslashes are as in a shell; what only a shell can do
/// is an error.
pub(crate) fn split(line: &str) -> Result<Vec<String>, WordsError> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        match next {
            '\'' => word.get_or_insert_default().push_str(&single(&mut rest)?),
            '"' => word.get_or_insert_default().push_str(&double(&mut rest)?),
            '\\' => {
                word.get_or_insert_default().push(rest.next().ok_or(WordsError::OpenEscape)?);
            }
            ' ' | '\t' => words.extend(word.take()),
            _ if SYNTAX.contains(next) => return Err(WordsError::Syntax(next)),
            '~' | '#' if word.is_none() => return Err(WordsError::Syntax(next)),
            _ => word.get_or_insert_default().push(next),
        }
    }
    words.extend(word);
    let first = words.first().ok_or(WordsError::Empty)?;
    let sets = first.split_once('=').is_some_and(|(name, _)| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.chars().all(is_letter) && !name.starts_with(char::is_numeric)
    });
    if sets { Err(WordsError::Variable(first.clone())) } else { Ok(words) }
}

fn single(rest: &mut std::str::Chars<'_>) -> Result<String, WordsError> {
    let (inside, after) = rest.as_str().split_once('\'').ok_or(WordsError::OpenQuote('\''))?;
    *rest = after.chars();
    Ok(inside.to_owned())
}

fn double(rest: &mut std::str::Chars<'_>) -> Result<String, WordsError> {
    let mut inside = String::new();
    loop {
        match rest.next().ok_or(WordsError::OpenQuote('"'))? {
            '"' => return Ok(inside),
            syntax @ ('$' | '`') => return Err(WordsError::Syntax(syntax)),
            '\\' => match rest.next().ok_or(WordsError::OpenQuote('"'))? {
                escaped @ ('"' | '\\' | '$' | '`') => inside.push(escaped),
                other => inside.extend(['\\', other]),
            },
            other => inside.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::shell::HOSTILE;
    use fathom_record::shell_word;

    use super::*;

    #[test]
    fn words_are_split_as_by_a_shell() {
        for (line, words) in [
            ("sort  -n\tfile", &["sort", "-n", "file"][..]),
            (r#"awk '{print $1}' "a b" c\ d """#, &["awk", "{print $1}", "a b", "c d", ""][..]),
            (r#"echo "a\"b\n" a'b'c"#, &["echo", r#"a"b\n"#, "abc"][..]),
            ("curl http://x/?a=1#b", &["curl", "http://x/?a=1#b"][..]),
            ("test a=b [ ~", &["", ""][..]),
        ] {
            match split(line) {
                Ok(split) => assert_eq!(split, words, "{line}"),
                Err(error) => assert_eq!(error, WordsError::Syntax('~'), "{line}"),
            }
        }
    }

    #[test]
    fn shell_syntax_is_refused_by_name() {
        for (line, error) in [
            ("ls | wc", WordsError::Syntax('|')),
            ("echo $HOME", WordsError::Syntax('$')),
            (r#"echo "$HOME""#, WordsError::Syntax('$')),
            ("ls *.rs", WordsError::Syntax('*')),
            ("a > b", WordsError::Syntax('>')),
            ("LANG=C sort", WordsError::Variable("LANG=C".to_owned())),
            ("echo 'a", WordsError::OpenQuote('\'')),
            ("echo a\\", WordsError::OpenEscape),
            ("  ", WordsError::Empty),
        ] {
            assert_eq!(split(line), Err(error), "{line}");
        }
    }

    #[test]
    fn quoted_words_are_read_back() {
        for word in ["a", "", "a\"b"].into_iter().chain(HOSTILE) {
            assert_eq!(split(&format!("x {}", shell_word(word))).unwrap(), ["x", word]);
        }
    }
}
