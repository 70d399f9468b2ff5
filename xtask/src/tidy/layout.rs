//! Length and width of files and functions, meaningless names, and the first `//!` line.

use super::File;
use super::code::{Code, words};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// File and module names that do not describe their contents.
const EMPTY_NAMES: &[&str] =
    &["common", "helper", "helpers", "misc", "types", "util", "utilities", "utils"];

pub(super) fn of_any(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for part in file.path.split('/') {
        let stem = part.split('.').next().unwrap_or(part);
        if EMPTY_NAMES.contains(&stem) {
            let what = format!("`{part}` does not describe its contents");
            found.push(file.message(1, &what, "name it after what it contains"));
        }
    }
    if file.is("toml") {
        let lines = file.text.lines().map(|line| (line, false));
        found.extend(too_wide(file, lines));
    }
    found
}

pub(super) fn of_rust(file: &File, code: &Code) -> Vec<String> {
    let mut found = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines, above {FILE_LINES_MAX}");
        found.push(file.message(FILE_LINES_MAX + 1, &what, "split it into modules"));
    }
    let first = file.text.lines().find(|line| !line.trim().is_empty());
    // The name says what it is.
    let is_tests = file.path.ends_with("/tests.rs");
    if !is_tests && !first.is_some_and(|line| line.starts_with("//!")) {
        let what = "the first line is not `//!`";
        found.push(file.message(1, what, "describe the purpose of the file in one sentence"));
    }
    found.extend(too_wide(file, file.text.lines().zip(code.raw.iter().copied())));
    found.extend(too_long(file, code));
    for (index, line) in code.lines.iter().enumerate() {
        for name in EMPTY_NAMES {
            if words(line, name).any(|at| line[..at].trim_end().ends_with("mod")) {
                let what = format!("module `{name}` does not describe its contents");
                found.push(file.message(index + 1, &what, "name it after what it contains"));
            }
        }
    }
    found
}

/// Lines above the limit. Exempt are raw strings and lines with a URL, which cannot be broken.
fn too_wide<'f>(
    file: &File,
    lines: impl Iterator<Item = (&'f str, bool)>,
) -> impl Iterator<Item = String> {
    lines.enumerate().filter_map(|(index, (line, exempt))| {
        let columns = line.chars().count();
        if exempt || columns <= COLUMNS_MAX || line.contains("://") {
            return None;
        }
        let what = format!("{columns} columns, above {COLUMNS_MAX}");
        Some(file.message(index + 1, &what, "run `cargo fmt`, or break the line by hand"))
    })
}

/// Functions above the limit, counted from `fn` to the closing brace.
fn too_long(file: &File, code: &Code) -> Vec<String> {
    let text = code.text();
    let mut found = Vec::new();
    for at in words(&text, "fn") {
        let name: String = text[at + 2..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let Some(end) = end_of_body(&text[at..]).filter(|_| !name.is_empty()) else { continue };
        let lines = text[at..at + end].matches('\n').count() + 1;
        if lines > FUNCTION_LINES_MAX {
            let line = text[..at].matches('\n').count() + 1;
            let what = format!("function `{name}` has {lines} lines, above {FUNCTION_LINES_MAX}");
            found.push(file.message(line, &what, "split it into functions"));
        }
    }
    found
}

/// The end of the function at the start of `text`; `None` for a declaration without a body.
fn end_of_body(text: &str) -> Option<usize> {
    let (mut round, mut curly) = (0i32, 0i32);
    for (at, character) in text.char_indices() {
        match character {
            '(' | '[' => round += 1,
            ')' | ']' => round -= 1,
            ';' if round == 0 && curly == 0 => return None,
            '{' => curly += 1,
            '}' => {
                curly -= 1;
                if curly <= 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Vec<String> {
        let file = File::new("crates/a/src/b.rs", text);
        of_rust(&file, &Code::of(text))
    }

    fn calls(count: usize) -> String {
        "    x();\n".repeat(count)
    }

    #[test]
    fn file_above_600_lines_is_reported() {
        assert!(rust(&format!("//! A.\n{}", "\n".repeat(599))).is_empty());
        let found = rust(&format!("//! A.\n{}", "\n".repeat(600)));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/a/src/b.rs:601: 601 lines"), "{found:?}");
    }

    #[test]
    fn function_above_70_lines_is_reported() {
        let of = |body: usize| rust(&format!("//! A.\nfn long(\n) {{\n{}}}\n", calls(body)));
        assert!(of(67).is_empty(), "{:?}", of(67));
        assert!(of(68)[0].contains(":2: function `long` has 71 lines"), "{:?}", of(68));
    }

    #[test]
    fn braces_in_strings_are_not_counted() {
        let text = format!("//! A.\nfn f() {{\n    s(\"{{\");\n}}\nfn g() {{\n{}}}\n", calls(66));
        assert!(rust(&text).is_empty());
    }

    #[test]
    fn long_function_in_tests_is_reported() {
        let text = format!(
            "//! A.\nmod tests {{\n    fn t() {{\n{}    }}\n}}\n\
             trait T {{\n    fn n(x: [u8; 2]);\n}}\n",
            calls(80)
        );
        assert_eq!(rust(&text).len(), 1);
    }

    #[test]
    fn line_length_exempts_urls_and_raw_strings() {
        let wide = "é".repeat(101);
        assert!(rust(&format!("//! A.\n// {}\n", "é".repeat(97))).is_empty());
        assert!(rust(&format!("//! A.\n// {wide}\n"))[0].contains(":2: 104 columns"));
        assert!(rust(&format!("//! A.\n// https://a.b/{wide}\n")).is_empty());
        assert!(rust(&format!("//! A.\nconst T: &str = r\"\n{wide}\n\";\n")).is_empty());
        let toml = File::new("Cargo.toml", &wide);
        assert!(of_any(&toml)[0].contains("101 columns"));
    }

    #[test]
    fn missing_module_doc_is_reported() {
        assert!(rust("use x;\n")[0].contains("first line is not `//!`"));
        assert!(rust("")[0].contains("first line is not `//!`"));
        assert!(rust("\n//! A.\n").is_empty());
    }

    #[test]
    fn meaningless_names_are_reported() {
        for path in ["crates/a/src/util.rs", "crates/common/src/lib.rs", "web/src/helpers.ts"] {
            assert!(of_any(&File::new(path, ""))[0].contains("does not describe"), "{path}");
        }
        assert!(of_any(&File::new("crates/a/src/utility_meter.rs", "")).is_empty());
        assert!(rust("//! A.\nmod misc {}\n")[0].contains("module `misc`"));
        assert!(rust("//! A.\nlet types = 1;\n").is_empty());
    }
}
