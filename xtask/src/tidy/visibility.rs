//! Allowed dependencies between the crates of the workspace, checked in their manifests.

use super::File;

/// Each crate with the crates of the workspace that it may depend on (see ARCHITECTURE.md).
const ALLOWED: &[(&str, &[&str])] = &[
    ("record", &[]),
    ("analysis", &["record"]),
    ("store", &["record"]),
    ("report", &["analysis", "record"]),
    ("simulation", &["analysis", "record"]),
    ("measure", &["analysis", "record"]),
    ("metric", &["analysis", "measure", "record"]),
    ("fileio", &["measure", "record"]),
    ("paths", &["fileio"]),
    ("far", &["analysis", "fileio", "measure", "paths", "record"]),
    ("transfer", &["analysis", "far", "fileio", "load", "measure", "metric", "paths", "record"]),
    ("service", &["far", "fileio", "measure", "record"]),
    ("peers", &["analysis", "fileio", "measure", "record", "service"]),
    ("engine", &["analysis", "measure", "metric", "record"]),
    (
        "probes",
        &["analysis", "far", "fetch", "fileio", "load", "measure", "metric", "record", "transfer"],
    ),
    ("load", &["analysis", "fileio", "measure", "metric", "record", "service"]),
    ("fetch", &["fileio", "load", "measure", "metric", "paths", "record"]),
    ("lab", &["analysis", "measure", "record"]),
];

const PROGRAMS: &[&str] = &["cli", "fleet", "fuzz", "xtask"];

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
