//! Links of the Markdown files to files of the project. What lies on other machines is not asked.

use std::path::Path;

use super::File;

/// Checks that every local link leads to a file or folder.
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
            if !leads_somewhere(root, file, &target) {
                let what = format!("`{target}` leads nowhere");
                found.push(file.says(index + 1, &what, "correct the link or remove it"));
            }
        }
    }
    found
}

/// The line without what stands between backticks.
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

fn leads_somewhere(root: &Path, file: &File, target: &str) -> bool {
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

    /// Checks a text as if it lay in this crate's source folder.
    fn check(text: &str) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        of_markdown(root, &File::new("src/page.md", text))
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_is_found() {
        assert!(check("see [x](nowhere.md)")[0].contains("page.md:1: `nowhere.md`"));
        assert_eq!(check("[x](nowhere.md#part) ![y](no.png \"title\")").len(), 2);
        assert_eq!(check("[x][y]\n\n[y]: nowhere.md").len(), 1);
        assert_eq!(check("[x]()").len(), 1);
    }

    #[test]
    fn links_that_lead_somewhere_are_left_alone() {
        assert!(
            check("[a](tidy.rs) [b](../Cargo.toml#x) [c](/src/tidy) [d](<tidy.rs>)").is_empty()
        );
        assert!(check("[a](https://example.org/x) [b](#part) [c](mailto:a@b.c)").is_empty());
    }

    #[test]
    fn code_is_no_link() {
        assert!(check("`[x](nowhere)`\n```\n[x](nowhere)\n```\n").is_empty());
        assert_eq!(check("```\n```\n[x](nowhere)").len(), 1);
    }
}
