//! Names and paths that are banned, or allowed in certain files only, each with its remedy.

use super::File;
use super::code::{Code, words};

/// A name that only certain files may use.
struct Ban {
    name: &'static str,
    /// Prefixes of the paths that may use it.
    home: &'static [&'static str],
    remedy: &'static str,
}

/// Files that may read the clock.
const CLOCKS: &[&str] = &[
    "crates/measure/src/clock",
    "crates/measure/src/disturbance",
    "crates/measure/src/host",
    "crates/measure/tests/",
];

/// Files that may call clock_gettime: those, and the probe that measures the call.
const CLOCK_CALLS: &[&str] = &[
    "crates/measure/src/clock",
    "crates/measure/src/disturbance",
    "crates/measure/src/host",
    "crates/measure/tests/",
    "crates/probes/src/os/vdso.rs",
];

const READ_THE_CLOCK: &str = "use a `Clock` from fathom-measure, so that a test can script time";

const BANS: &[Ban] = &[
    Ban { name: "Instant::now", home: CLOCKS, remedy: READ_THE_CLOCK },
    Ban { name: "clock_gettime", home: CLOCK_CALLS, remedy: READ_THE_CLOCK },
    Ban { name: "_rdtsc", home: CLOCKS, remedy: READ_THE_CLOCK },
    Ban { name: "__rdtscp", home: CLOCKS, remedy: READ_THE_CLOCK },
    Ban {
        name: "SystemTime::now",
        home: &["crates/measure/src/clock"],
        remedy: "use the wall time of the clock in fathom-measure",
    },
];

/// Absolute paths that exist on one machine only. In two parts, so that this file passes its own
/// check.
const MACHINE_PATHS: &[(&str, &str)] = &[("/home", "/"), ("/root", "/"), ("/work", "/")];

/// Crates that must not name commands or options of the program: only `report` and `cli` do.
const BELOW_REPORT: &[&str] =
    &["record", "analysis", "store", "measure", "metric", "fileio", "engine", "probes"];

/// Rules for every text file.
pub(super) fn of_any(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (folder, slash) in MACHINE_PATHS {
            let path = format!("{folder}{slash}");
            // Not within a longer path or an address.
            let begins = |at: usize| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}*".contains(c))
            };
            if line.match_indices(&path).any(|(at, _)| begins(at)) {
                let what = format!("`{path}` is a path of one machine");
                found.push(file.message(index + 1, &what, "use a relative path or `/path/to`"));
            }
        }
    }
    found
}

pub(super) fn of_rust(file: &File, code: &Code) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in code.lines.iter().enumerate() {
        for ban in BANS {
            let at_home = ban.home.iter().any(|home| file.path.starts_with(home));
            if !at_home && words(line, ban.name).next().is_some() {
                let what = format!("`{}` is not allowed here", ban.name);
                found.push(file.message(index + 1, &what, ban.remedy));
            }
        }
    }
    found.extend(flags(file, code));
    found
}

/// String literals that name a command or an option of the program in a library.
fn flags(file: &File, code: &Code) -> Vec<String> {
    let is_below =
        BELOW_REPORT.iter().any(|name| file.path.starts_with(&format!("crates/{name}/src/")));
    // The procedures of `fathom file` declare their own options, and name them in their results; a
    // metric of files says which of its parameters are theirs.
    let is_procedure = ["commands", "file"]
        .iter()
        .any(|folder| file.path.starts_with(&format!("crates/probes/src/{folder}/")));
    if !is_below || is_procedure {
        return Vec::new();
    }
    let tests = code.lines.iter().position(|line| line.contains("#[cfg(test)]"));
    let lines = code.literals.iter().take(tests.unwrap_or(usize::MAX)).enumerate();
    let named = lines.filter(|(_, text)| begins(text, "--") || begins(text, "fathom "));
    let message = |(index, _)| {
        let what = "a library names a command or an option of the program";
        file.message(
            index + 1,
            what,
            "return a `Remedy`, and format it in crates/report or crates/cli",
        )
    };
    named.map(message).collect()
}

/// Whether `start` and a letter after it begin a word of the text.
fn begins(text: &str, start: &str) -> bool {
    text.match_indices(start).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + start.len()..].chars().next();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '-')
            && after.is_some_and(|c| c.is_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(path: &str, text: &str) -> Vec<String> {
        of_rust(&File::new(path, text), &Code::of(text))
    }

    const PROBE: &str = "crates/probes/src/cpu/a.rs";

    #[test]
    fn options_named_by_libraries_are_reported() {
        for text in ["choose --cpu N", "`fathom run` of it", "(--force)", "fathom show"] {
            let code = format!("let next = \"{text}\";");
            assert!(rust(PROBE, &code)[0].contains("return a `Remedy`"), "{text}");
            for home in ["crates/report/src/remedy.rs", "crates/cli/src/remedy.rs"] {
                assert!(rust(home, &code).is_empty(), "{home}: {text}");
            }
            assert!(rust("crates/peers/src/fio.rs", &code).is_empty(), "{text}");
            assert!(rust("crates/probes/src/commands/read.rs", &code).is_empty(), "{text}");
            assert!(rust(PROBE, &format!("#[cfg(test)]\nmod tests {{\n{code}\n}}")).is_empty());
        }
        for text in ["fathom-lock", "a -- b", "non--zero", "fathom (id 1)", "Fathom runs"] {
            assert!(rust(PROBE, &format!("let text = \"{text}\";")).is_empty(), "{text}");
        }
        assert!(rust(PROBE, "// what `--cpu` chose\nlet x = y--z;").is_empty());
        assert!(rust(PROBE, "let x = r#\"\n--cpu\"#;")[0].contains(":2:"));
    }

    #[test]
    fn clock_is_read_in_its_own_files_only() {
        for call in ["Instant::now()", "libc::clock_gettime(x)", "_rdtsc()", "__rdtscp(p)"] {
            assert_eq!(rust(PROBE, call).len(), 1, "{call}");
            assert!(rust("crates/measure/src/clock/tsc.rs", call).is_empty(), "{call}");
            assert!(rust("crates/measure/src/disturbance.rs", call).is_empty(), "{call}");
        }
        let vdso = "crates/probes/src/os/vdso.rs";
        assert!(rust(vdso, "libc::clock_gettime(x)").is_empty());
        assert_eq!(rust(vdso, "Instant::now()").len(), 1);
        assert_eq!(rust("crates/measure/src/host.rs", "SystemTime::now()").len(), 1);
        assert!(rust("crates/measure/src/clock.rs", "SystemTime::now()").is_empty());
        assert!(rust(PROBE, "let instant: Instant = clock_gettime_name();").is_empty());
    }

    #[test]
    fn absolute_paths_of_a_machine_are_reported() {
        let text = |path: &str| of_any(&File::new("README.md", path));
        for folder in ["home", "root", "work"] {
            assert_eq!(text(&format!("cd /{folder}/me")).len(), 1, "{folder}");
            assert!(text(&format!("https://a.b/{folder}/c and x/{folder}/y")).is_empty());
        }
        assert!(text("a /homepage and /worker/").is_empty());
    }
}
