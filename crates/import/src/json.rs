//! JSON of other tools: errors have line and field. Programs print what no JSON has: text before
//! and after it, and numbers that are none.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;

use crate::ParseError;
use crate::json_place::JsonPlace;
use crate::name::title;

/// Objects and lists of a file, and elements of all: each takes up to 700 and 160 bytes.
const BRACKETS_MAX: usize = 1 << 16;
const ELEMENTS_MAX: usize = 1 << 19;
/// Lines before the JSON that become notes.
const NOTES_MAX: usize = 5;

/// Whether JSON begins in this line.
pub(crate) fn is_begin(line: &str) -> bool {
    let line = line.trim_start();
    let list = line.strip_prefix('[').map(str::trim_start);
    line.starts_with('{') || list.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
}

/// Reads the JSON of a text; what was printed before it of errors and warnings is noted.
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    notes: &mut Vec<String>,
) -> Result<T, ParseError> {
    let before = text.lines().take_while(|line| !is_begin(line)).count();
    let skipped = text.split_inclusive('\n').take(before).map(str::len).sum::<usize>();
    let (head, text) = text.split_at(skipped);
    if text.trim().is_empty() {
        return Err(ParseError::new(1, "no JSON; name the option of the tool that writes it"));
    }
    let says = |line: &&str| {
        let line = line.to_lowercase();
        ["warning", "terminat", "error"].iter().any(|word| line.contains(word))
    };
    let said = head.lines().filter(says).take(NOTES_MAX);
    notes.extend(said.map(|line| {
        let is_cut = line.to_lowercase().contains("terminat");
        let what = if is_cut { "the run was interrupted" } else { "printed before the results" };
        format!("{what}: {}", title(line.trim()))
    }));
    let count_of = |marks: &[u8]| text.bytes().filter(|byte| marks.contains(byte)).count();
    if count_of(b"{[") > BRACKETS_MAX || count_of(b",") > ELEMENTS_MAX {
        let what = format!("more than {BRACKETS_MAX} objects and lists or {ELEMENTS_MAX} elements");
        return Err(ParseError::new(before + 1, format!("{what}: import it in parts")));
    }
    let (end, words) = scanned(text);
    let (text, after) = text.split_at(end);
    if after.trim_start().starts_with(['{', '[']) {
        let line = before + text.matches('\n').count() + 1;
        return Err(ParseError::new(line, "trailing characters: more than one JSON document"));
    }
    let quoted = quoted(text, &words);
    serde_json::from_str(&quoted).map_err(|error| {
        let what = JsonPlace::default().describe(&error, quoted.as_bytes());
        located(&error, text, before, what)
    })
}

fn located(error: &serde_json::Error, text: &str, before: usize, what: String) -> ParseError {
    let line = error.line();
    let of_line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim();
    let what = match () {
        () if error.is_eof() => "the file ends too early".to_owned(),
        // Where JSON has a key or a bracket.
        () if error.is_syntax() && of_line.starts_with(|c: char| c.is_alphabetic()) => {
            format!("text within the JSON, `{of_line}`: write the JSON to a file of its own")
        }
        () => what,
    };
    ParseError::new(line + before, what)
}

/// Each JSON document of a text, in one line or in many, and the lines before it.
pub(crate) fn documents(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut rest, mut lines) = (text, 0);
    std::iter::from_fn(move || {
        loop {
            let line = rest.split_inclusive('\n').next()?;
            let is_document = is_begin(line);
            let end = if is_document { scanned(rest).0 } else { line.len() };
            let (document, after) = rest.split_at(end);
            let before = lines;
            lines += document.matches('\n').count();
            rest = after;
            if is_document {
                return Some((before, document));
            }
        }
    })
}

/// Where the JSON ends, and the words in it that stand for numbers: `NaN` of C++ and Python,
/// `-nan` of C, `Infinity`, `1e999`.
fn scanned(text: &str) -> (usize, Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut words) = (0, 0_usize, Vec::new());
    while at < bytes.len() {
        let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+-.()".contains(byte);
        let length = bytes[at..].iter().take_while(is_word).count();
        if length > 0 {
            let word = text[at..at + length].split('(').next().unwrap_or_default();
            if not_finite(word).is_some() {
                words.push(at..at + length);
            }
            at += length;
            continue;
        }
        match bytes[at] {
            b'"' => at += string_length(&bytes[at..]) - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return (at + 1, words),
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    (text.len(), words)
}

/// Of a string with its quotes.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    bytes.len().min(at + 1)
}

pub(crate) fn not_finite(word: &str) -> Option<f64> {
    word.parse::<f64>().ok().filter(|value| !value.is_finite())
}

/// With those words as strings, which a [`Number`] reads.
fn quoted<'t>(text: &'t str, words: &[Range<usize>]) -> Cow<'t, str> {
    if words.is_empty() {
        return text.into();
    }
    let (mut whole, mut from) = (String::with_capacity(text.len() + 2 * words.len()), 0);
    for word in words {
        let plain = text[word.clone()].split('(').next().unwrap_or_default();
        whole += &format!("{}\"{plain}\"", &text[from..word.start]);
        from = word.end;
    }
    (whole + &text[from..]).into()
}

/// The names of fields in a text, whole or cut, and how deep each is.
pub(crate) fn fields(text: &str) -> Vec<(usize, &str)> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut found) = (0, 0_usize, Vec::new());
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let length = string_length(&bytes[at..]);
                let name = text.get(at + 1..(at + length).saturating_sub(1));
                at += length - 1;
                let is_field = text[at + 1..].trim_start().starts_with(':');
                found.extend(name.filter(|_| is_field).map(|name| (depth, name)));
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    found
}

/// What a field has, if that is what it should be: one that is not must not cost the file.
pub(crate) fn if_valid<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Value::deserialize(deserializer).map(|value| T::deserialize(value).unwrap_or_default())
}

/// A name or a setting, which scripts also write as a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        }))
    }
}

/// A time, rate or size. What a tool writes for one that it does not have is not finite, so that
/// its series says so; see [`crate::parsed::ParsedSeries::push`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Value::deserialize(deserializer)? {
            Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
            Value::String(text) => text.parse().unwrap_or(f64::NAN),
            // `null`, as libraries of Rust and JavaScript write NaN.
            _ => f64::NAN,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_none_are_read_and_strings_kept() {
        let text =
            r#"{"NaN": [NaN, -nan, Infinity, -nan(ind), 1e999, null, 1.5e-6], "a": "x\"NaN"}"#;
        let (end, words) = scanned(text);
        let words: Vec<&str> = words.into_iter().map(|word| &text[word]).collect();
        assert_eq!((end, words.len(), words[3]), (text.len(), 5, "-nan(ind)"));
        let list = &text[8..text.find(']').expect("a list") + 1];
        let quoted = quoted(list, &scanned(list).1).into_owned();
        let numbers: Vec<Number> = serde_json::from_str(&quoted).expect("numbers");
        let finite: Vec<f64> = numbers.iter().map(|it| it.0).filter(|it| it.is_finite()).collect();
        assert_eq!((numbers.len(), finite), (7, vec![1.5e-6]));
        let lenient: Vec<Number> = serde_json::from_str("[\"fast\", {}, \"0.5\"]").expect("all");
        assert!(lenient[0].0.is_nan() && lenient[1].0.is_nan() && lenient[2].0 == 0.5);
    }

    #[test]
    fn fields_have_their_depth() {
        let found = fields("{\"a\": {\"b\" : [{\"c\": \"d\"}]}, \"e\": 1, \"f");
        assert_eq!(found, [(1, "a"), (2, "b"), (4, "c"), (1, "e")]);
    }
}
