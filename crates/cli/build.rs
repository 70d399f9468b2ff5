//! The commit of a release build, for `fathom --version`, and the page of `fathom report`,
//! compressed.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() {
    pack_page();
    println!("cargo::rerun-if-env-changed=FATHOM_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let built = match env::var("FATHOM_COMMIT") {
        Ok(commit) if !commit.is_empty() => format!("commit {commit}"),
        // A commit must not build the programs of the tests again.
        _ if env::var("PROFILE").as_deref() == Ok("debug") => "debug build".to_owned(),
        _ => commit().map_or("unknown commit".to_owned(), |commit| format!("commit {commit}")),
    };
    println!("cargo::rustc-env=FATHOM_BUILT={built}");
    println!("cargo::rustc-env=FATHOM_COMPILER={}", compiler().unwrap_or_default());
    // At a fixed address nothing is relocated: a worker starts 0.4 ms earlier, with 150 page faults
    // less. A static program has its own way.
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if !features.split(',').any(|feature| feature == "crt-static") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

fn pack_page() {
    const PAGE: &str = "../../web/packaged/report.html";
    println!("cargo::rerun-if-changed={PAGE}");
    let text = fs::read(PAGE).expect("the page is in the source tree");
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&text).expect("writing to memory");
    let packed = encoder.finish().expect("writing to memory");
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&folder).join("report.html.deflate"), packed).expect("cargo made it");
}

/// `rustc 1.88.0 (6b00bc388 2025-06-23), opt-level 3`
fn compiler() -> Option<String> {
    let output = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    Some(format!("{}, opt-level {}", version.trim(), env::var("OPT_LEVEL").ok()?))
}

/// `e738b3882bc9`, or `e738b3882bc9 with changes`; `None` where the tree is not a clone, or where
/// git is missing or refuses it.
fn commit() -> Option<String> {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../..").canonicalize().ok()?;
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        // Sources unpacked inside another repository are not of its commit.
        git.arg("-C").arg(&root).env("GIT_CEILING_DIRECTORIES", root.parent()?);
        let output = git.args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim_end().to_owned())
    };
    // Each commit, checkout and merge adds a line to it.
    let log = root.join(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    // What may differ from the commit.
    for source in ["crates", "data", "web/packaged", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    git(&["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty= with changes"])
}
