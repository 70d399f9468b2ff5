//! Length and width of files, meaningless names, and the first `//!` line.

use super::File;
use super::code::Code;

const FILE_LINES_MAX: usize = 600;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Vec<String> {
        let file = File::new("crates/a/src/b.rs", text);
        of_rust(&file, &Code::from_text(text))
    }

    #[test]
    fn file_above_600_lines_is_reported() {
        assert!(rust(&format!("//! A.\n{}", "\n".repeat(599))).is_empty());
        let found = rust(&format!("//! A.\n{}", "\n".repeat(600)));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/a/src/b.rs:601: 601 lines"), "{found:?}");
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
    }
}
