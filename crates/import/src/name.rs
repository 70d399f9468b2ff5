//! Names of benchmarks in ids of metrics and in parameters: safe in a shell, in `{…}` and on a
//! screen, and the same whatever else a file has.

use fathom_record::{ParamValue, Params, escaped, is_hidden, shortened};

/// A longer name is cut, and ends with a checksum of the whole.
const CHARS_MAX: usize = 80;
const CHARS_KEPT: usize = CHARS_MAX - 9;
pub(crate) const TITLE_CHARS_MAX: usize = 1_000;

/// The name with letters, digits, `_`, `-` and `.` only: `sleep 0.1` is `sleep_0.1`.
pub(crate) fn safe(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '-' => text.push(letter),
            '.' if !text.ends_with('.') => text.push(letter),
            _ if letter.is_alphanumeric() => text.push(letter),
            _ if !text.ends_with('_') => text.push('_'),
            _ => {}
        }
    }
    let text = text.trim_matches(|c| c == '_' || c == '.');
    match text.chars().count() {
        0 => format!("unnamed-{:08x}", crc32fast::hash(name.as_bytes())),
        count if count <= CHARS_MAX => text.to_owned(),
        _ => {
            let kept: String = text.chars().take(CHARS_KEPT).collect();
            format!("{kept}-{:08x}", crc32fast::hash(name.as_bytes()))
        }
    }
}

/// The name as people read it, and any other text of a file.
pub(crate) fn title(name: &str) -> String {
    shortened(&escaped(&shortened(name, TITLE_CHARS_MAX)), TITLE_CHARS_MAX)
}

/// Whether a name is too long to have parts: nobody wrote it.
pub(crate) fn is_long(name: &str) -> bool {
    name.len() > TITLE_CHARS_MAX
}

/// With a parameter, whose value is an integer if it reads like one.
#[must_use]
pub(crate) fn with(params: Params, name: &str, value: &str) -> Params {
    let integer = value.parse().ok().filter(|integer: &i64| integer.to_string() == value);
    let value = if is_long(value) { safe(value) } else { value.to_owned() };
    let text = || ParamValue::Text(value.replace(|c| "{},=".contains(c) || is_hidden(c), "_"));
    params.and(&safe(name), integer.map_or_else(text, ParamValue::Integer))
}

/// A name in parts that `/` separates.
#[derive(Debug, PartialEq)]
pub(crate) struct ParsedName {
    pub(crate) id: String,
    pub(crate) params: Params,
}

impl ParsedName {
    /// Parts such as `n=8` or `n:8` are parameters, other parts the id.
    pub(crate) fn from_name(name: &str, separator: char) -> Self {
        if is_long(name) {
            return Self { id: safe(name), params: Params::none() };
        }
        let (mut id, mut params) = (String::new(), Params::none());
        for part in name.split('/') {
            match part.split_once(separator) {
                Some((key, value)) if !id.is_empty() && !key.is_empty() && !value.is_empty() => {
                    params = with(params, key, value);
                }
                _ if id.is_empty() => id = safe(part),
                _ => id = format!("{id}.{}", safe(part)),
            }
        }
        Self { id, params }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_and_do_not_depend_on_others() {
        for (name, id) in [
            ("sleep 0.1", "sleep_0.1"),
            ("./a.out | sort -n > x", "a.out_sort_-n_x"),
            ("BM_x<std::vector<int>>", "BM_x_std_vector_int"),
            ("größe", "größe"),
            ("..", "unnamed-9608161c"),
        ] {
            assert_eq!(safe(name), id);
        }
        let (one, other) = (safe(&"x".repeat(99)), safe(&"x".repeat(100)));
        assert!(one != other && one.chars().count() == CHARS_MAX, "{one} {other}");
    }

    #[test]
    fn parts_of_a_name_are_parameters() {
        let of = |name| {
            let ParsedName { id, params } = ParsedName::from_name(name, '=');
            format!("{id}{params}")
        };
        assert_eq!(of("Sort/n=1000/kind=a{b"), "Sort{kind=a_b,n=1000}");
        assert_eq!(of("Sort/small/n=01"), "Sort.small{n=01}");
        assert_eq!(of("a=b"), "a_b", "a name of parameters alone has none");
    }
}
