//! Allowed dependencies between the crates of the workspace, checked in their manifests.

use super::File;

/// Each crate with the crates of the workspace that it may depend on (see ARCHITECTURE.md).
const ALLOWED: &[(&str, &[&str])] = &[
    ("record", &[]),
    ("testing", &[]),
    ("analysis", &["record"]),
    ("store", &["fileio", "http", "record"]),
    ("report", &["analysis", "record"]),
    ("import", &["analysis", "record"]),
    ("simulation", &["analysis", "record"]),
    ("measure", &["analysis", "record"]),
    ("metric", &["analysis", "measure", "record"]),
    ("fileio", &["measure", "record"]),
    ("paths", &["fileio", "record"]),
    ("far", &["analysis", "fileio", "http", "measure", "paths", "record"]),
    (
        "transfer",
        &["analysis", "far", "fileio", "http", "load", "measure", "metric", "paths", "record"],
    ),
    ("trial", &["analysis", "fileio", "measure", "metric", "record"]),
    ("fleet", &["far", "measure", "record"]),
    ("ui", &["http", "record", "service"]),
    ("service", &["far", "fileio", "http", "measure", "record"]),
    ("peers", &["analysis", "fileio", "measure", "record", "service"]),
    ("engine", &["analysis", "measure", "metric", "record"]),
    (
        "probes",
        &[
            "analysis", "bench", "far", "fetch", "fileio", "http", "load", "measure", "metric",
            "record", "transfer",
        ],
    ),
    ("bench", &["analysis", "cost", "fileio", "measure", "metric", "record"]),
    ("cost", &["analysis", "measure", "record"]),
    ("http", &["measure"]),
    ("load", &["analysis", "cost", "fileio", "http", "measure", "metric", "record", "service"]),
    ("fetch", &["fileio", "http", "load", "measure", "metric", "paths", "record"]),
    ("lab", &["analysis", "far", "fleet", "measure", "record"]),
];

const PROGRAMS: &[&str] = &["cli", "fuzz", "xtask"];

pub(super) fn of_crates(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let package = file.path.strip_prefix("crates/").unwrap_or(&file.path);
        let name = package.strip_suffix("/Cargo.toml");
        let Some(name) = name.filter(|name| !name.contains('/') && !PROGRAMS.contains(name)) else {
            continue;
        };
        let Some((_, allowed_crates)) = ALLOWED.iter().find(|(of, _)| of == &name) else {
            let what = format!("crate `{name}` has no list of allowed dependencies");
            found.push(file.message(1, &what, "add it to ALLOWED in xtask/src/tidy/visibility.rs"));
            continue;
        };
        for (line, dependency) in dependencies(&file.text) {
            if !allowed_crates.contains(&dependency.as_str()) {
                let what = format!("`{name}` must not depend on `{dependency}`");
                let allowed = if allowed_crates.is_empty() {
                    "none".to_owned()
                } else {
                    allowed_crates.join(", ")
                };
                let remedy = format!("use only its allowed dependencies ({allowed})");
                found.push(file.message(line, &what, &remedy));
            }
        }
    }
    found
}

/// Compares the table of crates in ARCHITECTURE.md with the manifests: each dependency follows from
/// its arrows, and each arrow is a dependency.
pub(super) fn of_table(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == "ARCHITECTURE.md") else {
        return Vec::new();
    };
    let rows: Vec<(usize, &str, Vec<&str>)> =
        page.text.lines().enumerate().filter_map(row).collect();
    let mut found = Vec::new();
    for (at, name, arrows) in &rows {
        let path = [format!("crates/{name}/Cargo.toml"), format!("{name}/Cargo.toml")];
        let Some(manifest) = files.iter().find(|file| path.contains(&file.path)) else { continue };
        let mut reached = arrows.clone();
        let mut next = 0;
        while let Some(one) = reached.get(next).copied() {
            let more = rows.iter().filter(|(_, of, _)| *of == one).flat_map(|(.., arrows)| arrows);
            let more: Vec<&str> = more.copied().filter(|it| !reached.contains(it)).collect();
            reached.extend(more);
            next += 1;
        }
        let own: Vec<String> = dependencies(&manifest.text).into_iter().map(|(_, it)| it).collect();
        for one in own.iter().filter(|one| !reached.contains(&one.as_str())) {
            let what = format!("the table lacks that `{name}` depends on `{one}`");
            found.push(page.message(at + 1, &what, "add it to the row"));
        }
        for one in arrows.iter().filter(|one| !own.iter().any(|it| it == *one)) {
            let what = format!("`{name}` does not depend on `{one}`");
            found.push(page.message(at + 1, &what, "remove it from the row"));
        }
    }
    found
}

/// Line, crate and arrows of a row of the table; none of `all`.
fn row((at, line): (usize, &str)) -> Option<(usize, &str, Vec<&str>)> {
    let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
    let [name, _, arrows] = cells[..] else { return None };
    let name = name.trim_end_matches('`');
    let arrows = arrows.trim_end_matches(" |");
    let is_list = arrows.starts_with('`') || arrows == "–";
    let names = arrows.split('`').skip(1).step_by(2).collect();
    is_list.then_some((at, name.strip_prefix("crates/").unwrap_or(name), names))
}

/// The Rust version that README.md names is the one of the workspace.
pub(super) fn of_rust_version(files: &[File]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path);
    let (Some(page), Some(manifest)) = (text("README.md"), text("Cargo.toml")) else {
        return Vec::new();
    };
    let version = manifest.text.lines().find_map(|line| line.strip_prefix("rust-version = \""));
    let Some(version) = version.map(|rest| rest.trim_end_matches('"')) else { return Vec::new() };
    match page.text.contains(&format!("[Rust](https://rustup.rs) {version} or newer")) {
        true => Vec::new(),
        false => {
            let what = format!("the page does not name Rust {version}, the rust-version");
            vec![page.message(1, &what, &format!("say `Rust {version} or newer`"))]
        }
    }
}

/// Workspace crates among the dependencies of a manifest, with their lines. Dev-dependencies are
/// not checked.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        let header = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let ours = |key: &str| {
            let key = key.trim().trim_matches('"');
            key.strip_prefix("fathom-").map(str::to_owned)
        };
        if let Some(header) = header {
            section = header.to_owned();
            // `[dependencies.fathom-measure]`
            let key = header.rsplit_once("dependencies.").filter(|_| !header.contains("dev-"));
            found.extend(key.and_then(|(_, key)| ours(key)).map(|key| (index + 1, key)));
        } else if section.ends_with("dependencies") && !section.contains("dev-") {
            let key = line.split(['=', '.']).next().unwrap_or(line);
            found.extend(ours(key).map(|key| (index + 1, key)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, manifest: &str) -> Vec<String> {
        of_crates(&[File::new(format!("crates/{name}/Cargo.toml"), manifest)])
    }

    #[test]
    fn disallowed_dependencies_are_reported() {
        let on =
            |name: &str| format!("[dependencies]\nserde = \"1\"\nfathom-{name}.workspace = true");
        assert!(check("record", &on("measure"))[0].contains("Cargo.toml:3: `record` must not"));
        for (name, dependency, count) in [
            ("engine", "probes", 1),
            ("report", "record", 0),
            ("report", "measure", 1),
            ("probes", "measure", 0),
            ("cli", "store", 0),
        ] {
            assert_eq!(check(name, &on(dependency)).len(), count, "{name} on {dependency}");
        }
    }

    #[test]
    fn table_of_crates_has_the_arrows_of_the_manifests() {
        let on = |names: &[&str]| {
            let line = |name: &&str| format!("fathom-{name}.workspace = true\n");
            format!("[dependencies]\n{}", names.iter().map(line).collect::<String>())
        };
        let check = |rows: &str| {
            of_table(&[
                File::new("ARCHITECTURE.md", rows),
                File::new("crates/b/Cargo.toml", on(&["a"])),
                File::new("crates/c/Cargo.toml", on(&["a", "b"])),
            ])
        };
        let b = "| `crates/b` | x | `a` |\n";
        assert_eq!(check(&format!("{b}| `crates/c` | y, `z` | `b` |")), [""; 0]);
        assert!(check(&format!("{b}| `crates/c` | y | `a` |"))[0].contains("lacks that `c`"));
        assert!(check("| `crates/b` | x | `a`, `d` |")[0].contains("does not depend on `d`"));
    }

    #[test]
    fn readme_names_the_rust_version() {
        let check = |page: &str| {
            let manifest = File::new("Cargo.toml", "[x]\nrust-version = \"1.89\"\n");
            of_rust_version(&[File::new("README.md", page), manifest]).len()
        };
        assert_eq!(check("with [Rust](https://rustup.rs) 1.89 or newer"), 0);
        assert_eq!(check("with [Rust](https://rustup.rs) 1.88 or newer"), 1);
    }

    #[test]
    fn every_form_of_dependency_is_read() {
        let found = |manifest: &str| check("record", manifest).len();
        assert_eq!(found("[dependencies]\nfathom-store = { path = \"../store\" }"), 1);
        assert_eq!(found("[dependencies.fathom-store]\npath = \"../store\""), 1);
        assert_eq!(found("[target.\"cfg(unix)\".dependencies]\nfathom-store.workspace = true"), 1);
        assert_eq!(found("[build-dependencies]\nfathom-store.workspace = true"), 1);
        assert_eq!(found("[dev-dependencies]\nfathom-store.workspace = true"), 0);
        assert_eq!(found("[package]\nname = \"fathom-record\""), 0);
    }

    #[test]
    fn crate_without_rule_is_reported() {
        assert!(check("new", "[dependencies]\n")[0].contains("no list of allowed"));
        let outside = |name: &str, manifest| of_crates(&[File::new(name, manifest)]);
        assert!(outside("xtask/Cargo.toml", "[dependencies]\nfathom-store = 1").is_empty());
        assert_eq!(outside("lab/Cargo.toml", "[dependencies]\nfathom-store = 1").len(), 1);
        assert!(outside("Cargo.toml", "[workspace.dependencies]\nfathom-store = 1").is_empty());
    }
}
