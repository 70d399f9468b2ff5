//! Links from Markdown files to files of the project. URLs are not checked.

use std::path::Path;

use super::File;

pub(super) fn of_markdown(root: &Path, file: &File) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        let fence = line.trim_start();
        if fence.starts_with("```") || fence.starts_with("~~~") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(&without_code(line)) {
            if !is_resolved(root, file, &target) {
                let what = format!("`{target}` does not exist");
                found.push(file.message(index + 1, &what, "correct the link or remove it"));
            }
        }
    }
    found
}

/// The line without code in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Targets of `[text](target "title")` and of `[label]: target`.
fn targets(line: &str) -> Vec<String> {
    let first = |text: &str| {
        let text = text.trim();
        match text.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
            Some((target, _)) => target.to_owned(),
            None => text.split_whitespace().next().unwrap_or("").to_owned(),
        }
    };
    let mut found = Vec::new();
    for (at, _) in line.match_indices("](") {
        let rest = &line[at + 2..];
        found.extend(rest.find(')').map(|end| first(&rest[..end])));
    }
    let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]:"));
    found.extend(definition.map(|(_, target)| first(target)));
    found
}

fn is_resolved(root: &Path, file: &File, target: &str) -> bool {
    let elsewhere = target.contains("://") || target.starts_with("mailto:");
    let path = target.split(['#', '?']).next().unwrap_or(target);
    if elsewhere || (path.is_empty() && target.starts_with('#')) {
        return true;
    }
    let from = match path.strip_prefix('/') {
        Some(_) => root.to_path_buf(),
        None => root.join(file.folder()),
    };
    !path.is_empty() && from.join(path.trim_start_matches('/')).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        of_markdown(root, &File::new("src/page.md", text))
    }

    #[test]
    fn link_to_missing_file_is_reported() {
        assert!(check("see [x](nowhere.md)")[0].contains("page.md:1: `nowhere.md`"));
        assert_eq!(check("[x](nowhere.md#part) ![y](no.png \"title\")").len(), 2);
        assert_eq!(check("[x][y]\n\n[y]: nowhere.md").len(), 1);
        assert_eq!(check("[x]()").len(), 1);
    }

    #[test]
    fn links_to_files_urls_and_anchors_pass() {
        assert!(
            check("[a](tidy.rs) [b](../Cargo.toml#x) [c](/src/tidy) [d](<tidy.rs>)").is_empty()
        );
        assert!(check("[a](https://example.org/x) [b](#part) [c](mailto:a@b.c)").is_empty());
    }

    #[test]
    fn links_in_code_are_ignored() {
        assert!(check("`[x](nowhere)`\n```\n[x](nowhere)\n```\n").is_empty());
        assert_eq!(check("```\n```\n[x](nowhere)").len(), 1);
    }
}
