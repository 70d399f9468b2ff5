//! What is distributed: the version that the program prints, the packages of scripts/package.sh,
//! and the lists of scripts/materials.py.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fathom_record::SCHEMA_VERSION;
use serde_json::Value;

use crate::group::skipped;
use crate::test_env::{ProgramTestEnv, assert_status, path_text, text};

#[test]
fn version_has_commit_schema_and_licences() {
    let env = ProgramTestEnv::new();
    let long = env.stdout("--version");
    let (head, rest) = long.split_once('\n').expect("lines");
    assert_eq!(env.stdout("-V"), format!("{head}\n"));
    let version = env!("CARGO_PKG_VERSION");
    let built = head.strip_prefix(&format!("fathom {version} ("));
    let built = built.and_then(|it| it.strip_suffix(&format!(", schema {SCHEMA_VERSION})")));
    let built = built.expect(head);
    let is_known = built.strip_prefix("commit ").is_some_and(|commit| commit.len() >= 7);
    assert!(is_known || built == "unknown commit" || built == "debug build", "{head}");
    let licence = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/typical/LICENSE");
    assert!(rest.contains(&fs::read_to_string(licence).expect("a licence")), "{rest}");
    assert!(long.lines().all(|line| line.len() <= 80), "{long}");
}

/// Runs a shell command in a folder; returns its standard output.
fn shell(folder: &Path, line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).current_dir(folder).output();
    let output = output.expect("a shell");
    assert_status(&output, 0);
    text(&output.stdout)
}

/// Packs a file, in place of a program that would take minutes to compress, with the man pages and
/// completions of this program.
fn pack(env: &ProgramTestEnv, name: &str, umask: &str) -> PathBuf {
    let folder = env.file(name);
    fs::create_dir_all(folder.join("materials")).expect("a folder");
    fs::create_dir(folder.join("temporary")).expect("a folder");
    fs::write(folder.join("program"), "program").expect("a file");
    fs::write(folder.join("materials/THIRD-PARTY.txt"), "libraries").expect("a file");
    fs::write(folder.join("materials/sbom.cdx.json"), "{}").expect("a file");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/package.sh");
    let here = path_text(&folder);
    let line = format!(
        "umask {umask} && TMPDIR='{here}/temporary' SOURCE_DATE_EPOCH=1700000000 '{script}' \
         '{here}/program' aarch64 '{}' '{here}/materials' '{here}/dist'",
        env!("CARGO_BIN_EXE_fathom")
    );
    shell(&folder, &line);
    folder.join("dist")
}

/// The files of a folder, by name.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    files
        .map(|one| {
            let name = one.file_name().into_string().expect("UTF-8");
            (name, fs::read(one.path()).expect("a file"))
        })
        .collect()
}

#[test]
fn materials_are_the_linked_libraries() {
    if !Path::new("/usr/bin/python3").exists() {
        skipped("python3 is missing");
        return;
    }
    let env = ProgramTestEnv::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/materials.py");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = env!("CARGO");
    let line = format!("CARGO='{cargo}' '{script}' {target} . glibc=2.36 rust=1.96.0");
    shell(env.path(), &line);
    let bill = fs::read(env.file("sbom.cdx.json")).expect("a bill");
    let bill: Value = serde_json::from_slice(&bill).expect("JSON");
    let notices = fs::read_to_string(env.file("THIRD-PARTY.txt")).expect("notices");
    let components = bill["components"].as_array().expect("components");
    let names: Vec<&str> = components.iter().filter_map(|one| one["name"].as_str()).collect();
    for linked in ["rustls", "libsqlite3-sys", "sqlite", "d3-array", "glibc", "rust"] {
        assert!(names.contains(&linked), "{linked} is missing: {names:?}");
    }
    // Of a test, a macro, a build script, and this project.
    for other in ["proptest", "serde_derive", "cc", "fathom-record"] {
        assert!(!names.contains(&other), "{other} is not in the program");
    }
    for one in components {
        let field = |name: &str| one[name].as_str().expect("a text");
        let licence = one["licenses"][0]["expression"].as_str().expect("a licence");
        let line = format!("\n{} {}: {licence}", field("name"), field("version"));
        assert!(notices.contains(&line), "{line}");
        let sum = one["hashes"][0]["content"].as_str().unwrap_or_default();
        let is_crate = field("purl").starts_with("pkg:cargo/");
        assert_eq!(sum.len(), if is_crate { 64 } else { 0 }, "{one}");
    }
}

#[test]
fn packages_are_complete_and_equal_in_two_folders() {
    if !Path::new("/usr/bin/dpkg-deb").exists() {
        skipped("dpkg-deb is missing");
        return;
    }
    let env = ProgramTestEnv::new();
    let (one, other) = (pack(&env, "one", "022"), pack(&env, "another folder", "077"));
    let [files, others] = [&one, &other].map(|folder| contents(folder));
    let name = format!("fathom-{}-linux-aarch64", env!("CARGO_PKG_VERSION"));
    let deb = format!("fathom-bench_{}_arm64.deb", env!("CARGO_PKG_VERSION"));
    let mut expected =
        ["", ".cdx.json", ".oci.tar", ".tar.gz"].map(|end| format!("{name}{end}")).to_vec();
    expected.push(deb.clone());
    assert!(files.keys().eq(&expected), "{:?}", files.keys());
    for (name, bytes) in &files {
        assert!(*bytes == others[name], "{name} differs");
    }
    let licences = ["LICENSE-MIT", "LICENSE-APACHE", "LICENSE-typical-machines", "THIRD-PARTY.txt"];
    let tarball = shell(&one, &format!("tar -tzf {name}.tar.gz"));
    let has_folders = tarball.lines().any(|line| line.ends_with('/'));
    assert!(!has_folders, "they would change the rights of those in /usr/local: {tarball}");
    for file in licences {
        assert!(tarball.contains(&format!("{name}/share/doc/fathom/{file}\n")), "{tarball}");
    }
    for file in ["bin/fathom", "share/man/man1/fathom-run.1"] {
        assert!(tarball.contains(&format!("{name}/{file}\n")), "{tarball}");
    }
    let copyright = shell(
        &one,
        &format!("dpkg-deb --fsys-tarfile {deb} | tar -xO ./usr/share/doc/fathom-bench/copyright"),
    );
    for part in ["SpareCores/sc-inspector-data", "Permission is hereby granted", "Apache-2.0"] {
        assert!(copyright.contains(part), "{copyright}");
    }
    assert_eq!(shell(&one, &format!("dpkg-deb -f {deb} Architecture")), "arm64\n");
    let installed = shell(&one, &format!("dpkg-deb --fsys-tarfile {deb} | tar -t"));
    for file in ["systemd/system/fathom-canary.timer", "sysusers.d/fathom.conf"] {
        assert!(installed.contains(&format!("./usr/lib/{file}\n")), "{installed}");
    }
    assert_image(&one, &format!("{name}.oci.tar"), &licences);
    assert_purge(&one, &deb);
}

/// Installs, removes and purges a package in a folder as root, by its maintainer scripts.
fn assert_purge(folder: &Path, deb: &str) {
    let helper = Path::new("/usr/bin/deb-systemd-helper");
    if !rustix::process::geteuid().is_root() || !helper.exists() {
        skipped("no root, or no deb-systemd-helper");
        return;
    }
    shell(folder, "mkdir -p root/etc/default root/var/lib/dpkg/updates root/var/lib/dpkg/info");
    shell(folder, "touch root/var/lib/dpkg/status");
    let dpkg = "dpkg --root=$PWD/root --log=/dev/null --force-script-chrootless \
                --force-architecture --force-depends";
    // What the units would write, and an administrator who has enabled one.
    let of_units = "mkdir -p root/var/lib/fathom root/etc/systemd/system/timers.target.wants && \
                    touch root/var/lib/fathom/fathom.db root/etc/default/fathom";
    let left = "cd root && find var/lib/systemd var/lib/fathom etc/default etc/systemd -type f \
                -o -type l | sort";
    let enable = "DPKG_ROOT=$PWD/root DPKG_MAINTSCRIPT_PACKAGE=fathom-bench \
                  deb-systemd-helper enable fathom-canary.timer";
    shell(folder, &format!("{dpkg} -i {deb} && {of_units} && {enable}"));
    shell(folder, &format!("{dpkg} -i {deb} && {dpkg} -r fathom-bench"));
    let kept = shell(folder, left);
    for file in ["var/lib/fathom/fathom.db", "etc/default/fathom", "/fathom-canary.timer"] {
        assert!(kept.contains(file), "a removal keeps {file}: {kept}");
    }
    shell(folder, &format!("{dpkg} -P fathom-bench"));
    assert_eq!(shell(folder, &left.replace(" var/lib/fathom", "")), "", "left after a purge");
    assert!(!folder.join("root/var/lib/fathom").exists());
}

/// Follows an image from its index to its files; each blob has the digest that it is named by.
fn assert_image(folder: &Path, archive: &str, licences: &[&str]) {
    shell(folder, &format!("mkdir image && tar -C image -xf {archive}"));
    let read = |name: &str| -> Value {
        let text = fs::read(folder.join("image").join(name)).expect("a file");
        serde_json::from_slice(&text).expect("JSON")
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().expect("a digest");
        let name = digest.replace(':', "/");
        let path = format!("image/blobs/{name}");
        let sum = shell(folder, &format!("sha256sum {path}"));
        assert_eq!(format!("sha256:{}", &sum[..64]), digest);
        let size = fs::metadata(folder.join(&path)).expect("a blob").len();
        assert_eq!(descriptor["size"], size);
        format!("blobs/{name}")
    };
    let index = read("index.json");
    let manifest = read(&blob(&index["manifests"][0]));
    let config = read(&blob(&manifest["config"]));
    let layer = blob(&manifest["layers"][0]);
    assert_eq!(config["architecture"], "arm64");
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/usr/bin/fathom"]));
    let sum = shell(folder, &format!("gzip -dc image/{layer} | sha256sum"));
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", &sum[..64]));
    assert_eq!(read("manifest.json")[0]["Layers"][0], layer.as_str());
    let list = shell(folder, &format!("tar -tvzf image/{layer}"));
    let has = |mode: &str, name: &str| {
        list.lines().any(|line| line.starts_with(mode) && line.ends_with(&format!(" ./{name}")))
    };
    assert!(has("-rwxr-xr-x", "usr/bin/fathom") && has("-rw-r--r--", "etc/hosts"), "{list}");
    assert!(has("drwxrwxrwt", "tmp/") && has("drwxr-xr-x", ""), "{list}");
    for file in licences {
        assert!(has("-rw-r--r--", &format!("usr/share/doc/fathom/{file}")), "{list}");
    }
}
