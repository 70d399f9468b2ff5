//! Words of commands for a shell.

/// Words that a shell would act upon: tests feed them to every place that builds a command.
pub const HOSTILE: [&str; 6] =
    ["a b", "$(touch ran)", "`touch ran`", "x;touch ran", "it's'\"$PATH\\", "\n-*?#~"];

/// A word as a shell reads it back, quoted if it needs that. Every text from the environment, a
/// file or another host passes here on its way into a command, including one that is printed.
pub fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/=:,+@%".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_words_are_quoted_and_plain_ones_are_not() {
        assert_eq!(shell_word("a-1_b/c.d=e:f,g+h@i%"), "a-1_b/c.d=e:f,g+h@i%");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert!(HOSTILE.iter().all(|word| shell_word(word).starts_with('\'')));
    }
}
