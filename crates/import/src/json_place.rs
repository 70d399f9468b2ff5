//! The field at which reading JSON failed, found from line and column of the error: a deserializer
//! that tracks fields is a second copy of all readers.

use std::fmt::Write as _;

/// Bytes of a name that are kept.
const NAME_MAX: usize = 80;

/// Follows JSON, in pieces of any size, to the place of an error.
#[derive(Debug)]
pub struct JsonPlace {
    steps: Vec<JsonStep>,
    line: usize,
    column: usize,
    is_escaped: bool,
    string: Option<StringKind>,
    expects_name: bool,
    /// The last byte: a bracket that closes, or a comma, ends its value at the byte after it, since
    /// the end of a number is known by the byte after it.
    last: u8,
}

#[derive(Debug)]
enum JsonStep {
    Name(Vec<u8>),
    Index(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum StringKind {
    Name,
    Value,
}

impl Default for JsonPlace {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            line: 1,
            column: 0,
            is_escaped: false,
            string: None,
            expects_name: false,
            last: b' ',
        }
    }
}

impl JsonPlace {
    /// Goes on over bytes that were read.
    pub fn advance(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.step(*byte));
    }

    /// The message of an error within the bytes that come next, without its place, and the field
    /// after it, unless that is the whole document.
    pub fn describe(mut self, error: &serde_json::Error, bytes: &[u8]) -> String {
        let (line, column) = (error.line(), error.column());
        for byte in bytes {
            if (self.line, self.column) >= (line, column) {
                break;
            }
            self.step(*byte);
        }
        let text = error.to_string();
        let text = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
        // What is wrong in itself is the value before the bracket, or what begins with it; what
        // lacks something is the object that ends with it.
        match text.starts_with("invalid ") {
            true if matches!(self.last, b'{' | b'[') => drop(self.steps.pop()),
            true => {}
            false => self.end_value(),
        }
        match self.field() {
            field if field.is_empty() || line == 0 || error.is_syntax() => text.to_owned(),
            field => format!("{text}, field `{field}`"),
        }
    }

    fn field(&self) -> String {
        let mut field = String::new();
        for step in &self.steps {
            match step {
                JsonStep::Name(name) if name.is_empty() => {}
                JsonStep::Name(name) => {
                    let dot = if field.is_empty() { "" } else { "." };
                    let _ = write!(field, "{dot}{}", String::from_utf8_lossy(name));
                }
                JsonStep::Index(index) => {
                    let _ = write!(field, "[{index}]");
                }
            }
        }
        field
    }

    fn step(&mut self, byte: u8) {
        self.column += 1;
        if byte == b'\n' {
            (self.line, self.column) = (self.line + 1, 0);
        }
        if let Some(kind) = self.string {
            self.within_string(kind, byte);
            return;
        }
        self.end_value();
        self.last = byte;
        match byte {
            b'"' if self.expects_name => {
                self.string = Some(StringKind::Name);
                if let Some(JsonStep::Name(name)) = self.steps.last_mut() {
                    name.clear();
                }
            }
            b'"' => self.string = Some(StringKind::Value),
            b'{' => self.steps.push(JsonStep::Name(Vec::new())),
            b'[' => self.steps.push(JsonStep::Index(0)),
            _ => {}
        }
        self.expects_name = match byte {
            b'{' => true,
            b',' => matches!(self.steps.last(), Some(JsonStep::Name(_))),
            b' ' | b'\n' | b'\r' | b'\t' => self.expects_name,
            _ => false,
        };
    }

    fn within_string(&mut self, kind: StringKind, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => {
                self.string = None;
                return;
            }
            _ => {}
        }
        if let Some(JsonStep::Name(name)) = self.steps.last_mut()
            && kind == StringKind::Name
            && name.len() < NAME_MAX
        {
            name.push(byte);
        }
    }

    fn end_value(&mut self) {
        match (std::mem::replace(&mut self.last, b' '), self.steps.last_mut()) {
            (b'}' | b']', _) => {
                self.steps.pop();
            }
            (b',', Some(JsonStep::Index(index))) => *index += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its reading is tried")]
    struct Whole {
        a: Vec<Part>,
        b: Option<(u8, u8)>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its reading is tried")]
    struct Part {
        n: u8,
        text: Option<String>,
    }

    fn described(text: &str) -> String {
        let from_text = serde_json::from_str::<Whole>(text).err().expect("it is wrong");
        let from_reader = serde_json::from_reader::<_, Whole>(text.as_bytes()).err().unwrap();
        let whole = JsonPlace::default().describe(&from_text, text.as_bytes());
        for split in (0..from_reader.column().min(text.find('\n').unwrap_or(text.len()))).rev() {
            let (before, after) = text.as_bytes().split_at(split);
            let mut place = JsonPlace::default();
            place.advance(before);
            assert_eq!(place.describe(&from_reader, after), whole, "{text} at {split}");
        }
        whole
    }

    #[test]
    fn errors_name_their_field() {
        for (text, expected) in [
            (
                r#"{"a": [{"n": 1}, {"n": 300}]}"#,
                "invalid value: integer `300`, expected u8, field `a[1].n`",
            ),
            (
                r#"{"a": [{"n": 300, "text": "x"}]}"#,
                "invalid value: integer `300`, expected u8, field `a[0].n`",
            ),
            (
                r#"{"a": [{"n": "}],"}]}"#,
                "invalid type: string \"}],\", expected u8, field `a[0].n`",
            ),
            (r#"{"a": [{"n": 1}, {"text": "\"]"}]}"#, "missing field `n`, field `a[1]`"),
            (
                r#"{"a": [{"n": 1, "text": 5.5}]}"#,
                "invalid type: floating point `5.5`, expected a string, field `a[0].text`",
            ),
            (
                r#"{"a": [], "b": [1, "x"]}"#,
                "invalid type: string \"x\", expected u8, field `b[1]`",
            ),
            (r#"{"b": [1, 2]}"#, "missing field `a`"),
            (
                "{\"a\": [],\n \"b\": [1, true]}",
                "invalid type: boolean `true`, expected u8, field `b[1]`",
            ),
            (r#"{"a": [], "c": 1}"#, "unknown field `c`, expected `a` or `b`, field `c`"),
            (r#"{"a": [}"#, "expected value"),
            (r#"{"a": ["#, "EOF while parsing a list, field `a[0]`"),
        ] {
            assert_eq!(described(text), expected, "{text}");
        }
    }
}
