//! What a request is besides its path: method, body and further fields.

use std::path::PathBuf;

use clap::Args;
use fathom_fileio::{read_bytes, read_text};
use fathom_metric::ProcedureError;
use fathom_metric::notation::{NotationError, time};

/// Bytes of a body, and of a file of fields, at most.
const BODY_MAX: u64 = 64 << 20;
const FIELDS_MAX: u64 = 64 << 10;

#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageOptions {
    /// Method of the requests [default: GET, with a body POST].
    #[arg(long, short, value_name = "METHOD", value_parser = method)]
    pub method: Option<String>,
    /// Body of each request.
    #[arg(long, short, value_name = "TEXT", conflicts_with = "data_file")]
    pub data: Option<String>,
    /// Body of each request, from a file.
    #[arg(long, value_name = "FILE")]
    pub data_file: Option<PathBuf>,
    /// Content-Type of the body.
    #[arg(long, short = 'T', value_name = "TYPE", value_parser = content_type)]
    pub content_type: Option<String>,
    /// Add the header fields in this file to each request, one in each line; empty lines and
    /// those that begin with # are ignored.
    #[arg(long, value_name = "FILE")]
    pub headers: Option<PathBuf>,
}

/// Method and body of all requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub method: String,
    pub body: Vec<u8>,
}

impl Default for Message {
    fn default() -> Self {
        Self { method: "GET".to_owned(), body: Vec::new() }
    }
}

impl Message {
    /// Whether responses are files, of which each has one length and content.
    pub fn gets(&self) -> bool {
        self.method == "GET"
    }

    /// Whether it may be sent again where its fate is unknown (RFC 9110 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].contains(&&self.method[..])
    }

    /// The field that its body needs. Without a body the methods that usually have one say so (RFC
    /// 9110 8.6).
    pub fn length(&self) -> Option<String> {
        let has_one = ["POST", "PUT", "PATCH"].contains(&&self.method[..]);
        let length = self.body.len();
        (has_one || length > 0).then(|| format!("Content-Length: {length}"))
    }
}

impl MessageOptions {
    /// # Errors
    /// If a file cannot be read.
    pub fn message(&self) -> Result<Message, ProcedureError> {
        let body = match (&self.data, &self.data_file) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(path)) => {
                let read = read_bytes(path, BODY_MAX);
                read.map_err(|error| {
                    let path = path.display();
                    ProcedureError::failed(format!("--data-file {path}: {error}"))
                })?
            }
            (None, None) => Vec::new(),
        };
        let has_body = self.data.is_some() || self.data_file.is_some();
        let usual = if has_body { "POST" } else { "GET" };
        let method = self.method.as_deref().unwrap_or(usual).to_owned();
        if method == "HEAD" && has_body {
            return Err(ProcedureError::usage("--method HEAD: such requests have no body"));
        }
        Ok(Message { method, body })
    }

    /// # Errors
    /// If `-d` has what is a duration or another option in other tools: a habit must not write to
    /// a server. A method or a type says that a body is meant.
    pub fn check(&self) -> Result<(), ProcedureError> {
        let is_meant = self.method.is_some() || self.content_type.is_some();
        let Some(data) = self.data.as_deref().filter(|_| !is_meant) else { return Ok(()) };
        let word = format!("-d{data}");
        let is_word = OTHER_WORDS.iter().any(|other| word.starts_with(other));
        let what = match seconds(data.strip_prefix("uration=").unwrap_or(data)) {
            Some(seconds) => {
                let exact = time(data).map_or_else(|_| format!("{seconds}s"), |_| data.to_owned());
                format!("-d {data} would send a body; the duration is --time {exact} (-z)")
            }
            None if is_word => {
                format!("{word} would send the body `{data}`; options have two dashes")
            }
            None => return Ok(()),
        };
        Err(ProcedureError::usage(format!(
            "{what}, the threads --threads N; a body that is meant takes --method POST"
        )))
    }

    /// A body that other tools take for the name of a file.
    pub fn warning(&self) -> Option<String> {
        let path = self.data.as_ref()?.strip_prefix('@')?;
        let is_path = !path.is_empty() && !path.contains(char::is_whitespace);
        is_path.then(|| {
            format!("--data @{path} is sent as it is; the content of a file: --data-file {path}")
        })
    }

    /// The type of the body, and the fields of the file.
    ///
    /// # Errors
    /// If it cannot be read, or a line is no field.
    pub fn fields(&self) -> Result<Vec<String>, ProcedureError> {
        let own = self.content_type.clone().into_iter();
        let Some(path) = &self.headers else { return Ok(own.collect()) };
        let failed = |what: &dyn std::fmt::Display| {
            ProcedureError::failed(format!("--headers {}: {what}", path.display()))
        };
        let text = read_text(path, FIELDS_MAX).map_err(|error| failed(&error))?;
        let is_field = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
        let lines = text.lines().enumerate().filter(|(_, line)| is_field(line));
        let lines = lines.map(|(at, line)| {
            field(line).map_err(|error| failed(&format!("line {}: {error}", at + 1)))
        });
        own.map(Ok).chain(lines).collect()
    }
}

/// Options of other tools with one dash: `-duration=5s` would be a body `uration=5s`.
const OTHER_WORDS: [&str; 4] = ["-duration", "-disable-", "-data", "-debug"];

/// The seconds of what wrk, k6 and others take for a duration: `3s`, `10`, `2m`, `1m30s`.
fn seconds(text: &str) -> Option<f64> {
    let (mut rest, mut sum) = (text.trim().to_ascii_lowercase(), 0.0);
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let unit = rest.split_off(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let number: f64 = rest.parse().ok()?;
        let end = unit.find(is_number).unwrap_or(unit.len());
        sum += number
            * match unit[..end].trim() {
                "ms" => 1e-3,
                "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
                "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
                "h" | "hour" | "hours" => 3600.0,
                _ => return None,
            };
        rest = unit[end..].to_owned();
    }
    (!text.trim().is_empty()).then_some(sum)
}

/// The field of a media type. wrk's `-T 5s` is a time.
fn content_type(text: &str) -> Result<String, NotationError> {
    let is_type = text.split_once('/').is_some_and(|(top, sub)| !top.is_empty() && !sub.is_empty());
    match is_type {
        true => field(&format!("Content-Type: {text}")),
        false => Err(NotationError::new(text, "a media type, such as application/json")),
    }
}

/// A method whose responses this client can read.
fn method(text: &str) -> Result<String, NotationError> {
    let is_token = (1..=20).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    // They end in a tunnel, and in an echo of the request.
    match is_token && !["CONNECT", "TRACE"].contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(NotationError::new(text, "a method in capitals, such as POST, HEAD or PUT")),
    }
}

/// A header field that does not change the framing of the request.
pub fn field(text: &str) -> Result<String, NotationError> {
    let wrong = |expected: &str| NotationError::new(text, expected);
    let (name, value) = text.split_once(':').ok_or_else(|| wrong("'NAME: VALUE'"))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_value = |c: char| c == '\t' || (' '..='~').contains(&c);
    if name.is_empty() || !name.chars().all(is_name) || !value.chars().all(is_value) {
        return Err(wrong("'NAME: VALUE', in ASCII"));
    }
    let own = ["connection", "content-length", "transfer-encoding"];
    match name.to_ascii_lowercase().as_str() {
        "host" => Err(wrong(
            "a field other than Host, which is that of the URL: name the host there, and its \
             address by --resolve HOST:PORT:ADDRESS",
        )),
        name if own.contains(&name) => Err(wrong("a field that fathom does not set itself")),
        _ => Ok(()),
    }?;
    Ok(format!("{name}: {}", value.trim()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn body_makes_a_post() {
        let of = |method: Option<&str>, data: Option<&str>| {
            let method = method.map(str::to_owned);
            let data = data.map(str::to_owned);
            MessageOptions { method, data, ..MessageOptions::default() }.message()
        };
        let shown = |message: Message| (message.method.clone(), message.length());
        let expected = |method: &str, length: Option<&str>| {
            (method.to_owned(), length.map(|length| format!("Content-Length: {length}")))
        };
        assert_eq!(shown(of(None, None).unwrap()), expected("GET", None));
        assert_eq!(shown(of(None, Some("äb")).unwrap()), expected("POST", Some("3")));
        assert_eq!(shown(of(None, Some("")).unwrap()), expected("POST", Some("0")));
        assert_eq!(shown(of(Some("PUT"), None).unwrap()), expected("PUT", Some("0")));
        assert_eq!(shown(of(Some("DELETE"), None).unwrap()), expected("DELETE", None));
        assert!(of(Some("HEAD"), Some("x")).is_err());
        for wrong in ["get", "CONNECT", "TRACE", "", "A B", "X\r\nY"] {
            assert!(method(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn duration_is_no_body_unless_a_method_says_so() {
        let of = |data: &str, method: Option<&str>| {
            let (data, method) = (Some(data.to_owned()), method.map(str::to_owned));
            MessageOptions { data, method, ..MessageOptions::default() }.check()
        };
        for (data, part) in [
            ("3s", "--time 3s (-z)"),
            ("10", "--time 10 (-z)"),
            ("2m", "--time 120s (-z)"),
            ("1m30s", "--time 90s (-z)"),
            ("0.5 h", "--time 0.5 h (-z)"),
            ("uration=5s", "--time 5s (-z)"),
            ("isable-keepalive", "-disable-keepalive would send"),
            ("ata={}", "options have two dashes"),
        ] {
            let error = of(data, None).expect_err(data).to_string();
            assert!(error.contains(part) && error.contains("--method POST"), "{data}: {error}");
            assert!(of(data, Some("POST")).is_ok(), "{data}");
        }
        for body in ["a=3s", "{\"a\":1}", "", "s", "3x", "isabel", "3 apples"] {
            assert!(of(body, None).is_ok(), "{body}");
        }
        assert!(["5s", "10", "json", "/", "text/"].map(content_type).iter().all(Result::is_err));
    }

    #[test]
    fn body_that_looks_like_a_file_is_said() {
        let of = |data: &str| {
            let data = Some(data.to_owned());
            MessageOptions { data, ..MessageOptions::default() }.warning()
        };
        let text = "--data @a.json is sent as it is; the content of a file: --data-file a.json";
        assert_eq!(of("@a.json").as_deref(), Some(text));
        assert_eq!([of("a@b"), of("@"), of("@a b")], [None, None, None]);
    }

    #[test]
    fn fields_that_change_the_framing_are_refused() {
        assert_eq!(field("Accept:  text/html "), Ok("Accept: text/html".to_owned()));
        for text in ["Host: x", "content-length: 3", "no colon", ": x", "A: b\r\nC: d"] {
            assert!(field(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fields_of_a_file_are_checked_like_others() {
        let of = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let headers = Some(file.path().to_owned());
            MessageOptions { headers, ..MessageOptions::default() }.fields()
        };
        assert_eq!(of("# one\nA: b\r\n\n  \n#C: x\nC:d").unwrap(), ["A: b", "C: d"]);
        let content_type = Some(content_type("text/plain").unwrap());
        let typed = MessageOptions { content_type, ..MessageOptions::default() };
        assert_eq!(typed.fields().unwrap(), ["Content-Type: text/plain"]);
        let error = of("A: b\nHost: x\n").unwrap_err().to_string();
        assert!(error.contains(": line 2: ") && error.contains("by --resolve HOST"), "{error}");
    }
}
