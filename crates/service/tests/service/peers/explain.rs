//! Why peers answer otherwise: `tests/peers/explanations.txt`.

use std::path::Path;

/// A cause of differences, with those that it explains.
pub(super) struct Explanation {
    /// Who is as the RFC says: `ours`, `theirs` or `both`.
    pub(super) right: String,
    pub(super) clause: String,
    pub(super) text: String,
    patterns: Vec<ExplainPattern>,
}

struct ExplainPattern {
    line: usize,
    peers: Vec<Counted>,
    cases: Vec<Counted>,
    ours: String,
    theirs: String,
}

/// A word of a pattern, and what it matched.
struct Counted {
    word: String,
    matched: usize,
}

/// How one peer answered one case otherwise than Fathom.
#[derive(Clone, Debug)]
pub(super) struct ExplainDifference {
    pub(super) peer: &'static str,
    pub(super) case: String,
    pub(super) ours: String,
    pub(super) theirs: String,
}

impl std::fmt::Display for ExplainDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { peer, case, ours, theirs } = self;
        write!(f, "{peer} | {case} | {ours} -> {theirs}")
    }
}

pub(super) fn read() -> Vec<Explanation> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/explanations.txt");
    parse(&std::fs::read_to_string(path).expect("explanations"))
}

pub(super) fn parse(text: &str) -> Vec<Explanation> {
    let mut explanations: Vec<Explanation> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts = line.trim_start_matches("@ ").split(" | ").collect::<Vec<_>>();
        let [first, second, third] = parts[..] else { panic!("{}: {line}", index + 1) };
        if line.starts_with("@ ") {
            assert!(["ours", "theirs", "both"].contains(&first), "{line}");
            let [right, clause, text] = [first, second, third].map(str::to_owned);
            explanations.push(Explanation { right, clause, text, patterns: Vec::new() });
        } else {
            let (ours, theirs) = third.split_once(" -> ").expect("ours -> theirs");
            let [ours, theirs] = [ours, theirs].map(str::to_owned);
            let (peers, cases) = (counted(first), counted(second));
            let last = explanations.last_mut().expect("an explanation before");
            last.patterns.push(ExplainPattern { line: index + 1, peers, cases, ours, theirs });
        }
    }
    explanations
}

fn counted(words: &str) -> Vec<Counted> {
    words.split(' ').map(|word| Counted { word: word.to_owned(), matched: 0 }).collect()
}

/// The index of the first explanation that matches.
pub(super) fn explain(all: &mut [Explanation], difference: &ExplainDifference) -> Option<usize> {
    all.iter_mut().position(|one| one.patterns.iter_mut().any(|pattern| pattern.takes(difference)))
}

/// What matched nothing.
pub(super) fn stale(all: &[Explanation]) -> Vec<String> {
    let of_pattern = |pattern: &ExplainPattern| {
        let words = pattern.peers.iter().chain(&pattern.cases);
        let unused = words.filter(|word| word.matched == 0);
        unused.map(|word| format!("line {}: {}", pattern.line, word.word)).collect::<Vec<_>>()
    };
    all.iter().flat_map(|one| one.patterns.iter().flat_map(of_pattern)).collect()
}

impl ExplainPattern {
    fn takes(&mut self, difference: &ExplainDifference) -> bool {
        let Self { peers, cases, ours, theirs, .. } = self;
        if !matches(ours, &difference.ours) || !matches(theirs, &difference.theirs) {
            return false;
        }
        let peer = peers.iter_mut().find(|peer| matches(&peer.word, difference.peer));
        let case = cases.iter_mut().find(|case| matches(&case.word, &difference.case));
        let (Some(peer), Some(case)) = (peer, case) else { return false };
        peer.matched += 1;
        case.matched += 1;
        true
    }
}

/// `*` is any text, `?` one character.
fn matches(pattern: &str, text: &str) -> bool {
    fn bytes(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', after)) => (0..=text.len()).any(|at| bytes(after, &text[at..])),
            Some((byte, after)) => text.split_first().is_some_and(|(first, rest)| {
                (byte == first || *byte == b'?') && bytes(after, rest)
            }),
        }
    }
    bytes(pattern.as_bytes(), text.as_bytes())
}
