//! The requests of a run, rendered once for each file.

use std::sync::OnceLock;

use fathom_fileio::XorSum;
use fathom_http::{coded, request};

use crate::message::Message;

/// One text with all requests, the end of each, and the lengths of the files: the listed ones, else
/// those of the first responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    text: Vec<u8>,
    ends: Vec<usize>,
    bytes: Vec<OnceLock<u64>>,
    /// The sums of the files, as far as known.
    contents: Vec<OnceLock<XorSum>>,
    as_coded: bool,
    of_range: bool,
    message: Message,
    /// The sum of the weights up to each file; empty if all are alike.
    weight_sums: Vec<u32>,
}

/// What all requests share.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// Value of the field Host.
    pub host: String,
    /// Further fields, each `Name: value`.
    pub more: Vec<String>,
    /// Ask the server to close the connection after the response.
    pub closes: bool,
    pub message: Message,
}

impl Fields {
    /// Whether a body may have a Content-Encoding.
    pub fn ask_for_coding(&self) -> bool {
        let fields = self.more.iter().filter_map(|field| field.split_once(':'));
        let mut asked = fields.filter(|(name, _)| name.eq_ignore_ascii_case("accept-encoding"));
        asked.any(|(_, value)| coded(value.as_bytes()))
    }

    /// Whether a response may be a part of the file.
    pub fn ask_for_range(&self) -> bool {
        let fields = self.more.iter().filter_map(|field| field.split_once(':'));
        fields.into_iter().any(|(name, _)| name.eq_ignore_ascii_case("range"))
    }
}

impl Requests {
    /// `files`: encoded paths with the lengths of the files.
    pub fn new(files: &[(String, Option<u64>)], fields: &Fields) -> Self {
        let (as_coded, of_range) = (fields.ask_for_coding(), fields.ask_for_range());
        let message = fields.message.clone();
        let (method, length) = (message.method.clone(), message.length());
        let mut requests = Self { as_coded, of_range, message, ..Self::default() };
        let closes = fields.closes.then_some("Connection: close");
        for (path, bytes) in files {
            let more = closes.into_iter().chain(length.as_deref());
            let more = more.chain(fields.more.iter().map(String::as_str));
            requests.text.extend_from_slice(request(&method, path, &fields.host, more).as_bytes());
            requests.text.extend_from_slice(&requests.message.body);
            requests.ends.push(requests.text.len());
            requests.bytes.push(bytes.map_or_else(OnceLock::new, OnceLock::from));
            requests.contents.push(OnceLock::new());
        }
        requests
    }

    /// Chosen by these weights, whose sum must fit.
    #[must_use]
    pub fn weighted(self, weights: &[u32]) -> Self {
        let sum = |sum: &mut u32, weight: &u32| {
            *sum += weight;
            Some(*sum)
        };
        Self { weight_sums: weights.iter().scan(0, sum).collect(), ..self }
    }

    /// The sum of all weights; `None` if the files are alike.
    pub fn weights(&self) -> Option<u32> {
        self.weight_sums.last().copied()
    }

    /// The file with this part of the weights.
    pub fn at_weight(&self, at: u32) -> u32 {
        self.weight_sums.partition_point(|sum| *sum <= at) as u32
    }

    /// The requests of the first files, at least one, of at most this number and length.
    pub fn first(&self, files: usize, bytes: u64) -> Self {
        let mut sum = 0;
        let fits = |at: &usize| {
            sum += self.bytes[*at].get().unwrap_or(&0);
            *at == 0 || sum <= bytes
        };
        let count = (0..self.len().min(files)).take_while(fits).count();
        let end = count.checked_sub(1).map_or(0, |last| self.ends[last]);
        Self {
            text: self.text[..end].to_vec(),
            ends: self.ends[..count].to_vec(),
            bytes: self.bytes[..count].to_vec(),
            contents: self.contents[..count].to_vec(),
            as_coded: self.as_coded,
            of_range: self.of_range,
            message: self.message.clone(),
            weight_sums: Vec::new(),
        }
    }

    /// The same requests with a further field, and responses that are longer.
    pub fn with(&self, field: &str, more_bytes: u64) -> Self {
        let mut longer = Self { text: Vec::new(), ends: Vec::new(), ..self.clone() };
        for file in 0..self.len() as u32 {
            let text = self.text(file);
            let (head, body) = text.split_at(text.len() - self.message.body.len());
            longer.text.extend_from_slice(&head[..head.len() - 2]);
            longer.text.extend_from_slice(format!("{field}\r\n\r\n").as_bytes());
            longer.text.extend_from_slice(body);
            longer.ends.push(longer.text.len());
        }
        let more = |bytes: &OnceLock<u64>| {
            bytes.get().map_or_else(OnceLock::new, |it| OnceLock::from(it + more_bytes))
        };
        longer.bytes = self.bytes.iter().map(more).collect();
        longer
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether a coding of the bodies was asked for.
    pub fn as_coded(&self) -> bool {
        self.as_coded
    }

    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Whether a response with this status is what was asked for.
    pub fn accepts(&self, status: u16) -> bool {
        match status {
            206 => self.of_range,
            status if self.message.gets() => status == 200,
            status => (200..300).contains(&status),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The request of a file.
    pub fn text(&self, file: u32) -> &[u8] {
        let file = file as usize;
        let from = file.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[from..self.ends[file]]
    }

    /// The request of a file with another path.
    pub fn towards(&self, file: u32, path: &str) -> Vec<u8> {
        let text = self.text(file);
        let at = self.message.method.len() + 1;
        let own = text[at..].iter().take_while(|byte| **byte != b' ').count();
        [&text[..at], path.as_bytes(), &text[at + own..]].concat()
    }

    /// The encoded path of a file.
    pub fn path(&self, file: u32) -> String {
        let text = self.text(file).split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    /// The sums of a file: the known ones, else those of a first response.
    pub fn content(&self, file: u32, first: impl FnOnce() -> XorSum) -> &XorSum {
        self.contents[file as usize].get_or_init(first)
    }

    /// The length of a file, if known.
    pub fn bytes(&self, file: u32) -> Option<u64> {
        self.bytes[file as usize].get().copied()
    }

    /// The length of a file: the known one, else that of this first response.
    pub fn length(&self, file: u32, first: u64) -> u64 {
        *self.bytes[file as usize].get_or_init(|| first)
    }

    /// The mean length of the files, if all are known.
    pub fn mean_bytes(&self) -> Option<u64> {
        let sum: u64 = self.bytes.iter().map(|bytes| bytes.get().copied()).sum::<Option<u64>>()?;
        Some(sum / (self.len() as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_shares_of_the_choice() {
        let files: Vec<_> = ["/a", "/b", "/c"].map(|path| (path.to_owned(), None)).into();
        let requests = Requests::new(&files, &Fields::default());
        assert_eq!(requests.weights(), None);
        let requests = requests.weighted(&[2, 1, 3]);
        let all = requests.weights().unwrap();
        let chosen: Vec<u32> = (0..all).map(|at| requests.at_weight(at)).collect();
        assert_eq!(chosen, [0, 0, 1, 2, 2, 2]);
        assert_eq!(requests.first(2, u64::MAX).weights(), None);
    }

    #[test]
    fn requests_are_rendered_once_per_file() {
        let files = [("/a".to_owned(), Some(10)), ("/b%20c".to_owned(), Some(31))];
        let fields = Fields {
            host: "server:8080".to_owned(),
            more: vec!["Accept: */*".to_owned()],
            ..Fields::default()
        };
        let requests = Requests::new(&files, &fields);
        let expected = "GET /b%20c HTTP/1.1\r\nHost: server:8080\r\nAccept: */*\r\n\r\n";
        assert_eq!(requests.text(1), expected.as_bytes());
        assert!(requests.text(0).starts_with(b"GET /a HTTP/1.1\r\n"));
        assert_eq!((requests.len(), requests.mean_bytes()), (2, Some(20)));
        assert!(!requests.as_coded());
        let part = Fields { more: vec!["range: bytes=0-9".to_owned()], ..Fields::default() };
        let accepted = |fields: &Fields| {
            [200, 204, 206].map(|status| Requests::new(&files, fields).accepts(status))
        };
        assert_eq!(accepted(&fields), [true, false, false]);
        assert_eq!(accepted(&part), [true, false, true]);
        let more = |field: &str| Fields { more: vec![field.to_owned()], ..Fields::default() };
        assert!(more("accept-encoding: gzip").ask_for_coding());
        assert!(!more("Accept-Encoding: identity").ask_for_coding());
        let closing = Requests::new(&files, &Fields { closes: true, ..fields.clone() });
        assert!(closing.text(0).windows(17).any(|part| part == b"Connection: close"));
        let message = Message { method: "POST".to_owned(), body: b"a=1".to_vec() };
        let posts = Requests::new(&files, &Fields { message, ..fields });
        let expected = "POST /a HTTP/1.1\r\nHost: server:8080\r\nContent-Length: 3\r\n\
                        Accept: */*\r\n\r\na=1";
        assert_eq!(String::from_utf8_lossy(posts.text(0)), expected);
        assert_eq!(
            [200, 201, 204, 206, 302].map(|it| posts.accepts(it)),
            [true, true, true, false, false]
        );
        let spun = posts.with("X: y", 0);
        let expected = expected.replace("\r\n\r\na=1", "\r\nX: y\r\n\r\na=1");
        assert_eq!(String::from_utf8_lossy(spun.text(0)), expected);
    }
}
