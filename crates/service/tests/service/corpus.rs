//! The request corpus: `tests/corpus/README.md` has its format.

use std::path::Path;

/// The file of conversation cases of a theme, and its name.
pub(crate) const THEMES: [&str; 10] = [
    "request-line",
    "fields",
    "framing",
    "smuggling",
    "ranges",
    "conditionals",
    "methods",
    "connection",
    "authorization",
    "control",
];

/// Words of the corpus that are only known at run time, with their values.
pub(crate) type CorpusWords = [(&'static str, String)];

/// What is sent, and what must be answered.
pub(crate) struct CorpusCase {
    pub(crate) theme: &'static str,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) replies: Vec<CorpusExpected>,
    /// Whether the connection ends after the last reply.
    pub(crate) close: bool,
    /// Body of the last reply; `None` for any.
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) has: Vec<(String, String)>,
    pub(crate) lacks: Vec<String>,
}

#[derive(Clone, Copy)]
pub(crate) struct CorpusExpected {
    pub(crate) status: u16,
    /// The reply has no body, whatever its length.
    pub(crate) is_head: bool,
}

/// All cases of a theme.
pub(crate) fn theme(theme: &'static str, words: &CorpusWords) -> Vec<CorpusCase> {
    let text = read(theme);
    let blocks = text.split("\n@ ").skip(1);
    blocks.map(|block| case(theme, block, words)).collect()
}

/// The targets, each with four methods.
pub(crate) fn targets(words: &CorpusWords) -> Vec<CorpusCase> {
    let text = read("targets");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows = lines.map(|line| line.split(' ').collect::<Vec<_>>());
    let methods = ["GET", "HEAD", "POST", "BREW"];
    rows.flat_map(|row| methods.map(|method| target(&row, method, words))).collect()
}

fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    std::fs::read_to_string(folder.join(format!("{name}.txt"))).expect("a corpus")
}

fn target(row: &[&str], method: &str, words: &CorpusWords) -> CorpusCase {
    let [name, status, target, rest @ ..] = row else { panic!("{row:?}") };
    let (is_malformed, of_get) = match status.strip_suffix('*') {
        Some(status) => (true, status),
        None => (false, *status),
    };
    let status = match (method, of_get.parse().expect("a status")) {
        (_, status) if is_malformed => status,
        ("BREW", _) => 501,
        ("POST", status) if status != 400 => 405,
        (_, status) => status,
    };
    let mut bytes = format!("{method} ").into_bytes();
    bytes.extend(decode(target, words));
    bytes.extend(b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let body = rest.first().filter(|body| status == 200 && method == "GET" && **body != "*");
    CorpusCase {
        theme: "targets",
        name: format!("{name} {method}"),
        bytes,
        replies: vec![CorpusExpected { status, is_head: method == "HEAD" }],
        close: matches!(status, 400 | 405 | 501),
        body: body.map(|body| body.as_bytes().to_vec()),
        has: Vec::new(),
        lacks: vec!["Set-Cookie".to_owned()],
    }
}

fn case(theme: &'static str, block: &str, words: &CorpusWords) -> CorpusCase {
    let mut lines = block.lines();
    let first = lines.next().unwrap_or_default();
    let [name, _clause, outcome] = first.split(" | ").collect::<Vec<_>>()[..] else {
        panic!("{theme}: {first}");
    };
    let outcome = String::from_utf8(decode(outcome, words)).expect("ASCII");
    let (statuses, connection) = outcome.rsplit_once(' ').expect("a status, and keep or close");
    let replies: Vec<_> = statuses.split(' ').map(expected).collect();
    let last = replies[replies.len() - 1];
    let mut case = CorpusCase {
        theme,
        name: name.to_owned(),
        bytes: Vec::new(),
        close: match connection {
            "keep" => false,
            "close" => true,
            _ => panic!("{theme}: {first}"),
        },
        body: (last.status == 200 && !last.is_head).then(|| b"0123456789".to_vec()),
        replies,
        has: Vec::new(),
        lacks: Vec::new(),
    };
    let (mut request_line, mut fields, mut raw) = (None, None, Vec::new());
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (kind, text) = line.split_at(1);
        let text = text.strip_prefix(' ').unwrap_or(text);
        match kind {
            ">" => request_line = Some(sent(text, words)),
            "+" => fields.get_or_insert_with(Vec::new).extend(sent(text, words)),
            "|" => raw.extend(sent(text, words)),
            "=" => expect(&mut case, text, words),
            _ => panic!("{theme} {name}: {line}"),
        }
    }
    if request_line.is_some() || fields.is_some() {
        case.bytes = request_line.unwrap_or_else(|| b"GET /a HTTP/1.1\r\n".to_vec());
        case.bytes.extend(b"Host: localhost\r\n");
        case.bytes.extend(fields.unwrap_or_default());
        case.bytes.extend(b"\r\n");
    }
    case.bytes.extend(raw);
    case
}

fn expected(text: &str) -> CorpusExpected {
    let (status, is_head) = match text.strip_suffix("/head") {
        Some(status) => (status, true),
        None => (text, false),
    };
    CorpusExpected { status: status.parse().expect("a status"), is_head }
}

fn expect(case: &mut CorpusCase, text: &str, words: &CorpusWords) {
    let decoded = |text: &str| String::from_utf8(decode(text, words)).expect("ASCII");
    match text.split_once(' ').unwrap_or((text, "")) {
        ("body", "*") => case.body = None,
        ("body", body) => case.body = Some(decode(body, words)),
        ("has", field) => {
            let (name, value) = field.split_once(": ").expect("a field");
            case.has.push((name.to_owned(), decoded(value)));
        }
        ("lacks", name) => case.lacks.push(name.to_owned()),
        _ => panic!("{}: {text}", case.name),
    }
}

/// A line with its end.
fn sent(line: &str, words: &CorpusWords) -> Vec<u8> {
    match line.strip_suffix('\\') {
        Some(line) => decode(line, words),
        None => [decode(line, words), b"\r\n".to_vec()].concat(),
    }
}

fn decode(text: &str, words: &CorpusWords) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        bytes.extend(before.as_bytes());
        let (kind, after) = escape.split_at(1);
        rest = after;
        match kind {
            "r" => bytes.push(b'\r'),
            "n" => bytes.push(b'\n'),
            "t" => bytes.push(b'\t'),
            "0" => bytes.push(0),
            "\\" => bytes.push(b'\\'),
            "x" => {
                bytes.push(u8::from_str_radix(&after[..2], 16).expect("two digits"));
                rest = &after[2..];
            }
            "{" => {
                let (inner, after) = after.split_once('}').expect("a closing brace");
                let count =
                    inner.split_once('*').and_then(|(n, text)| Some((n.parse().ok()?, text)));
                match count {
                    Some((count, text)) => bytes.extend(decode(text, words).repeat(count)),
                    None => {
                        let word = words.iter().find(|(name, _)| *name == inner);
                        bytes.extend(word.expect("a known word").1.as_bytes());
                    }
                }
                rest = after;
            }
            _ => panic!("unknown escape in {text}"),
        }
    }
    bytes.extend(rest.as_bytes());
    bytes
}
