//! What makes a test depend on the speed or the load of the machine: sleeps, comparisons of time,
//! second tries. Tests of the lab may, and lines with `// mood: <reason>` on them or above.

use std::collections::BTreeSet;

use super::File;
use super::code::{Code, words};

const MARK: &str = "// mood: ";
/// Words that measure time.
const TIMES: &[&str] = &["Instant", "Duration", "elapsed", "monotonic_raw_ns"];
const COMPARISONS: &[&str] = &[" < ", " <= ", " > ", " >= "];
/// Parts of a name that counts tries.
const TRIES: &[&str] = &["retry", "retries", "tries", "attempts"];
/// What makes such a name one of a loop, and not of an option.
const LOOPS: &[&str] = &["for ", "while ", "0..", "1..", " += 1", " -= 1", "const "];

pub(super) fn of_tests(files: &[File]) -> Vec<String> {
    let files: Vec<(&File, Code)> = files
        .iter()
        .filter(|file| file.is("rs"))
        .map(|file| (file, Code::from_text(&file.text)))
        .collect();
    let declared: BTreeSet<String> =
        files.iter().flat_map(|(file, code)| test_modules(file, code)).collect();
    files.iter().flat_map(|(file, code)| of_file(file, code, &declared)).collect()
}

fn of_file(file: &File, code: &Code, declared: &BTreeSet<String>) -> Vec<String> {
    let source: Vec<&str> = file.text.lines().collect();
    let whole = file.path.contains("/tests/")
        || file.name() == "tests.rs"
        || declared.iter().any(|path| path == &file.path || file.folder() == path);
    let mut is_test = vec![whole; code.lines.len()];
    // Tests of the lab, or of another command.
    let mut is_elsewhere = vec![false; code.lines.len()];
    let mut found = Vec::new();
    for (at, line) in code.lines.iter().enumerate() {
        if is_test_module(code, at) {
            is_test[at..end_of_body(code, at)].fill(true);
        }
        if line.trim_start().starts_with("#[ignore") {
            let reason = &code.literals[at];
            if ["lab: ", "make "].iter().any(|begin| reason.starts_with(begin)) {
                is_elsewhere[at..end_of_body(code, at)].fill(true);
            } else {
                let what = "a test is ignored for a reason that names no command which runs it";
                let remedy = "begin the reason with `lab: ` or `make `, or mend the test";
                found.push(file.message(at + 1, what, remedy));
            }
        }
    }
    for at in 0..code.lines.len() {
        if is_test[at] && !is_elsewhere[at] && !is_marked(&source, at) {
            found.extend(of_line(code, at).map(|(what, remedy)| {
                let or = format!("; or say why it must be in `{MARK}<reason>`");
                file.message(at + 1, what, &(remedy.to_owned() + &or))
            }));
        }
    }
    found
}

/// What is wrong with a line, and its remedy.
fn of_line(code: &Code, at: usize) -> Option<(&'static str, &'static str)> {
    let line = &code.lines[at];
    let has = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
    let measures = TIMES.iter().any(|word| words(line, word).next().is_some());
    if line.contains("thread::sleep(") {
        return Some(("a test sleeps", "wait for the event itself"));
    }
    // A number that is subtracted makes a time of the past.
    let subtracts = line
        .split_once("monotonic_raw_ns() - ")
        .is_some_and(|(_, of)| of.starts_with(|first: char| !first.is_ascii_digit()));
    if subtracts || (measures && has(COMPARISONS)) {
        let remedy = "count calls, bytes or attempts, script the clock, or make it a test of the \
                      lab (`#[ignore = \"lab: …\"]`)";
        return Some(("a test depends on elapsed time", remedy));
    }
    let counts_tries =
        names(line).any(|name| name.to_lowercase().split('_').any(|part| TRIES.contains(&part)));
    let any_of_many = line.contains("(0..") && line.contains("any(|_|");
    let ends_early = words(line, "for _ in").next().is_some() && {
        let body = code.lines[at..end_of_body(code, at)].join("\n");
        ["break", "return"].iter().any(|word| words(&body, word).next().is_some())
    };
    if (counts_tries && has(LOOPS)) || any_of_many || ends_early {
        let remedy = "make the first try decide: script what varies, or wait for the event itself";
        return Some(("a test tries again", remedy));
    }
    None
}

/// The identifiers of a line.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty())
}

fn is_marked(source: &[&str], at: usize) -> bool {
    let above = at.checked_sub(1).and_then(|above| source.get(above));
    let above = above.filter(|line| line.trim_start().starts_with("//"));
    let reasons = source.get(at).into_iter().chain(above).filter_map(|line| line.split_once(MARK));
    reasons.into_iter().any(|(_, reason)| !reason.trim().is_empty())
}

/// Whether a module with a body begins at this attribute.
fn is_test_module(code: &Code, at: usize) -> bool {
    code.lines[at].contains("#[cfg(test)]")
        && item_after(code, at).is_some_and(|item| {
            words(item, "mod").next().is_some() && item.trim_end().ends_with('{')
        })
}

/// The first line after this one that is no attribute.
pub(super) fn item_after(code: &Code, at: usize) -> Option<&str> {
    let lines = code.lines[at + 1..].iter().map(String::as_str);
    lines.into_iter().find(|line| !line.trim().is_empty() && !line.trim_start().starts_with("#["))
}

/// The files and folders of `#[cfg(test)] mod name;`.
fn test_modules(file: &File, code: &Code) -> Vec<String> {
    let stem = file.name().trim_end_matches(".rs");
    let own = ["lib", "main"].contains(&stem);
    let base = if own { file.folder().to_owned() } else { format!("{}/{stem}", file.folder()) };
    let attributes = (0..code.lines.len()).filter(|at| code.lines[*at].contains("#[cfg(test)]"));
    let items = attributes.filter_map(|at| item_after(code, at));
    let declared = items.filter_map(|item| {
        let (before, name) = item.trim().strip_suffix(';')?.rsplit_once(' ')?;
        before.ends_with("mod").then_some(name)
    });
    declared.flat_map(|name| [format!("{base}/{name}.rs"), format!("{base}/{name}")]).collect()
}

/// The line after the one that closes the first block that is opened from `at` on.
pub(super) fn end_of_body(code: &Code, at: usize) -> usize {
    let mut depth = 0_i32;
    for (index, line) in code.lines.iter().enumerate().skip(at) {
        let opened = line.matches('{').count() as i32;
        depth += opened - line.matches('}').count() as i32;
        if depth == 0 && line.contains('}') {
            return index + 1;
        }
    }
    code.lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<String> {
        of_tests(&[File::new(path, text)])
    }

    const TEST: &str = "crates/a/tests/a.rs";

    #[test]
    fn sleeps_times_and_second_tries_are_found() {
        for (line, what) in [
            ("std::thread::sleep(PAUSE);", "sleeps"),
            ("assert!(begun.elapsed() < Duration::from_secs(5));", "elapsed time"),
            ("if elapsed >= limit {}", "elapsed time"),
            ("let ns = monotonic_raw_ns() - begun_ns;", "elapsed time"),
            ("while monotonic_raw_ns() < until_ns {}", "elapsed time"),
            ("const TRIES: u32 = 3;", "tries again"),
            ("for retries in (0..100).rev() {}", "tries again"),
            ("while !is_cold() && tries < 1000 {}", "tries again"),
            ("for _ in 0..VISITS_MAX { if is_good() { return; } }", "tries again"),
            ("for _ in 0..3 {\n  if is_good() {\n    break;\n  }\n}", "tries again"),
            ("(0..12_000).any(|_| condition())", "tries again"),
        ] {
            let found = check(TEST, line);
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(found[0].contains(what) && found[0].starts_with("crates/a/tests/a.rs:1: "));
            assert!(found[0].contains("`// mood: <reason>`"), "{found:?}");
            for (path, text) in [
                ("crates/a/src/a/tests.rs", line.to_owned()),
                (
                    "crates/a/src/a.rs",
                    format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{line}\n}}"),
                ),
            ] {
                assert_eq!(check(path, &text).len(), 1, "{path}: {line}");
            }
            for text in [
                format!("#[test]\n#[ignore = \"lab: a limit\"]\nfn f() {{\n{line}\n}}"),
                format!("// mood: a lower bound\n{line}"),
                format!("let text = \"{}\";", line.replace('"', "")),
            ] {
                assert!(check(TEST, &text).is_empty(), "{text}");
            }
            assert!(check("crates/a/src/a.rs", line).is_empty(), "not a test: {line}");
        }
    }

    #[test]
    fn other_lines_pass() {
        for line in [
            "let timeout = Duration::from_secs(5);",
            "let begun_ns = monotonic_raw_ns() - 5_000_000;",
            "assert!(record.headline > 0.0);",
            "let options = Options { retries: 3, ..usual };",
            "for _ in 0..rounds { write(); }",
            "fn f(clock: impl Fn() -> Duration) -> u32 {}",
            "let word = words.retain(|it| it.len() > 3);",
        ] {
            assert!(check(TEST, line).is_empty(), "{line}");
        }
    }

    #[test]
    fn only_the_body_of_a_test_module_is_checked() {
        let sleep = "fn f() {\n  thread::sleep(PAUSE);\n}\n";
        let text = format!("{sleep}#[cfg(test)]\nmod tests {{\n{sleep}}}\n{sleep}");
        let found = check("crates/a/src/a.rs", &text);
        assert!(found.len() == 1 && found[0].contains("a.rs:7: "), "{found:?}");
        let text = format!("#[test]\n#[ignore = \"lab: x\"]\n{sleep}#[test]\n{sleep}");
        assert!(check(TEST, &text)[0].contains("a.rs:8: "), "only one test is of the lab");
        let declared = [
            File::new("crates/a/src/lib.rs", "#[cfg(test)]\npub(crate) mod smoke;\nmod b;\n"),
            File::new("crates/a/src/smoke.rs", sleep),
            File::new("crates/a/src/smoke/c.rs", sleep),
            File::new("crates/a/src/b.rs", sleep),
        ];
        assert_eq!(of_tests(&declared).len(), 2, "{:?}", of_tests(&declared));
    }

    #[test]
    fn ignored_tests_name_their_command() {
        let with = |reason: &str| check(TEST, &format!("#[test]\n#[ignore{reason}]\nfn f() {{}}"));
        for good in [" = \"lab: a shaped link\"", " = \"make soak\""] {
            assert!(with(good).is_empty(), "{good}");
        }
        for bad in ["", " = \"takes minutes\"", " = \"lab\""] {
            assert!(with(bad)[0].contains("begin the reason with `lab: `"), "{bad}");
        }
    }

    #[test]
    fn mark_needs_a_reason() {
        for mark in ["// mood: ", "// mood:", "// mood", "let x = 1; // mood: above code"] {
            assert_eq!(check(TEST, &format!("{mark}\nthread::sleep(PAUSE);")).len(), 1, "{mark}");
        }
        assert!(check(TEST, "thread::sleep(PAUSE); // mood: a busy loop").is_empty());
    }
}
