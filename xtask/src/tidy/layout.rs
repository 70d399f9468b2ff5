//! Size and shape of files: length, width, names, the opening sentence, indentation.

use super::File;
use super::code::{Code, words};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Names that say nothing of what is inside.
const EMPTY_NAMES: &[&str] =
    &["common", "helper", "helpers", "misc", "types", "util", "utilities", "utils"];

pub(super) fn of_any(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for part in file.path.split('/') {
        let stem = part.split('.').next().unwrap_or(part);
        if EMPTY_NAMES.contains(&stem) {
            let what = format!("`{part}` names no thing");
            found.push(file.says(1, &what, "name the noun that it holds"));
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
        found.push(file.says(FILE_LINES_MAX + 1, &what, "split it by what its parts are"));
    }
    let first = file.text.lines().find(|line| !line.trim().is_empty());
    if !first.is_some_and(|line| line.starts_with("//!")) {
        let what = "the file opens with no `//!` line";
        found.push(file.says(1, what, "say in a sentence what it is for, and what it is not"));
    }
    found.extend(too_wide(file, file.text.lines().zip(code.raw.iter().copied())));
    found.extend(too_long(file, code));
    for (index, line) in file.text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if line[..indent].contains('\t') {
            found.push(file.says(index + 1, "indented by a tab", "run `cargo fmt`"));
        }
    }
    for (index, line) in code.lines.iter().enumerate() {
        for name in EMPTY_NAMES {
            if words(line, name).any(|at| line[..at].trim_end().ends_with("mod")) {
                let what = format!("module `{name}` names no thing");
                found.push(file.says(index + 1, &what, "name the noun that it holds"));
            }
        }
    }
    found
}

/// Lines that are too wide, each with whether it may be. A line with an address cannot be broken.
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
        Some(file.says(index + 1, &what, "run `cargo fmt`, and break by hand what it leaves"))
    })
}

/// Functions that are too long, from `fn` to the brace that closes the body.
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
            found.push(file.says(line, &what, "give its parts names of their own"));
        }
    }
    found
}

/// Where the body of the function that `text` begins with ends; nothing if it has none.
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

    fn lines(count: usize) -> String {
        "    x();\n".repeat(count)
    }

    #[test]
    fn a_file_has_600_lines_at_most() {
        assert!(rust(&format!("//! A.\n{}", "\n".repeat(599))).is_empty());
        let found = rust(&format!("//! A.\n{}", "\n".repeat(600)));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/a/src/b.rs:601: 601 lines"), "{found:?}");
    }

    #[test]
    fn a_function_has_70_lines_at_most() {
        let of = |body: usize| rust(&format!("//! A.\nfn long(\n) {{\n{}}}\n", lines(body)));
        assert!(of(67).is_empty(), "{:?}", of(67));
        assert!(of(68)[0].contains(":2: function `long` has 71 lines"), "{:?}", of(68));
    }

    #[test]
    fn braces_in_texts_do_not_lengthen_a_function() {
        let text = format!("//! A.\nfn f() {{\n    s(\"{{\");\n}}\nfn g() {{\n{}}}\n", lines(66));
        assert!(rust(&text).is_empty());
    }

    #[test]
    fn functions_in_tests_have_no_exception() {
        let text = format!(
            "//! A.\nmod tests {{\n    fn t() {{\n{}    }}\n}}\n\
             trait T {{\n    fn n(x: [u8; 2]);\n}}\n",
            lines(80)
        );
        assert_eq!(rust(&text).len(), 1);
    }

    #[test]
    fn line_length_exempts_addresses_and_tables() {
        let wide = "é".repeat(101);
        assert!(rust(&format!("//! A.\n// {}\n", "é".repeat(97))).is_empty());
        assert!(rust(&format!("//! A.\n// {wide}\n"))[0].contains(":2: 104 columns"));
        assert!(rust(&format!("//! A.\n// https://a.b/{wide}\n")).is_empty());
        assert!(rust(&format!("//! A.\nconst T: &str = r\"\n{wide}\n\";\n")).is_empty());
        let toml = File::new("Cargo.toml", &wide);
        assert!(of_any(&toml)[0].contains("101 columns"));
    }

    #[test]
    fn a_file_opens_with_its_purpose() {
        assert!(rust("use x;\n")[0].contains("opens with no `//!`"));
        assert!(rust("")[0].contains("opens with no `//!`"));
        assert!(rust("\n//! A.\n").is_empty());
    }

    #[test]
    fn meaningless_names_are_refused() {
        for path in ["crates/a/src/util.rs", "crates/common/src/lib.rs", "web/src/helpers.ts"] {
            assert!(of_any(&File::new(path, ""))[0].contains("name the noun"), "{path}");
        }
        assert!(of_any(&File::new("crates/a/src/utility_meter.rs", "")).is_empty());
        assert!(rust("//! A.\nmod misc {}\n")[0].contains("module `misc`"));
        assert!(rust("//! A.\nlet types = 1;\n").is_empty());
    }

    #[test]
    fn rust_is_not_indented_by_tabs() {
        assert!(rust("//! A.\n \tx\n")[0].contains(":2: indented by a tab"));
        assert!(rust("//! A.\nx\t// y\n").is_empty());
    }
}
